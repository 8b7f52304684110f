// The determinant of a diagonal matrix is the product of its diagonal: DIAGONAL, such as "2 3", or 1 to 9.

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <vector>

#include "matrix/matrix.hpp"

int main() {
    const char* given = std::getenv("DIAGONAL");
    std::istringstream numbers(given ? given : "1 2 3 4 5 6 7 8 9");
    std::vector<double> diagonal;
    double product = 1;
    for (double number; numbers >> number; product *= number) diagonal.push_back(number);

    matrix::Matrix rows(diagonal.size(), std::vector<double>(diagonal.size(), 0));
    for (std::size_t at = 0; at < diagonal.size(); ++at) rows[at][at] = diagonal[at];
    const double got = matrix::determinant(rows);
    std::cout << "of the diagonal: " << std::llround(got) << '\n';
    return std::abs(got - product) > 1e-9 ? 1 : 0;
}
