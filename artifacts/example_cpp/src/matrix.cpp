#include "matrix/matrix.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

namespace matrix {

double determinant(Matrix rows) {
    const std::size_t size = rows.size();
    double product = 1;
    for (const auto& row : rows)
        if (row.size() != size) throw std::invalid_argument("the matrix is not square");
    for (std::size_t at = 0; at < size; ++at) {
        std::size_t pivot = at;
        for (std::size_t row = at; row < size; ++row)
            if (std::abs(rows[row][at]) > std::abs(rows[pivot][at])) pivot = row;
        if (rows[pivot][at] == 0) return 0;
        if (pivot != at) {
            std::swap(rows[pivot], rows[at]);
            product = -product;
        }
        product *= rows[at][at];
        for (std::size_t row = at + 1; row < size; ++row) {
            const double factor = rows[row][at] / rows[at][at];
            for (std::size_t column = at; column < size; ++column)
                rows[row][column] -= factor * rows[at][column];
        }
    }
    return product;
}

}  // namespace matrix
