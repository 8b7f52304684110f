#include "matrix/matrix.hpp"

#include <cmath>
#include <cstdlib>
#include <iostream>

static void expect(double got, double wanted) {
    if (std::abs(got - wanted) > 1e-9) {
        std::cerr << "got " << got << ", wanted " << wanted << '\n';
        std::exit(1);
    }
}

int main() {
    expect(matrix::determinant({{1, 2}, {3, 4}}), -2);
    expect(matrix::determinant({{0, 1}, {1, 0}}), -1);
    expect(matrix::determinant({{1, 2}, {2, 4}}), 0);
}
