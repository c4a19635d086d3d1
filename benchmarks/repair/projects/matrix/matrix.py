"""Matrices as lists of rows."""


def transpose(rows):
    return [list(column) for column in zip(*rows)]


def multiply(left, right):
    if len(left[0]) != len(right):
        raise ValueError("the shapes do not fit")
    columns = right
    return [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in left]


def identity(size):
    return [[1 if row == column else 0 for column in range(size)] for row in range(size)]


def trace(rows):
    return sum(rows[index][index] for index in range(len(rows)))
