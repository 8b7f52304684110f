// Print the determinant of the matrix on standard input, a row on each line.

#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>

#include "matrix/matrix.hpp"

int main() {
    matrix::Matrix rows;
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        auto& row = rows.emplace_back();
        for (double number; words >> number;) row.push_back(number);
    }
    std::cout << "determinant: " << std::setprecision(15) << matrix::determinant(rows) << '\n';
}
