#pragma once

#include <vector>

namespace matrix {

using Matrix = std::vector<std::vector<double>>;

// Return the determinant of a square matrix; throws std::invalid_argument for any other.
double determinant(Matrix rows);

}  // namespace matrix
