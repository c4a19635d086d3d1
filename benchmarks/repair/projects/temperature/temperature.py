"""Temperatures in three scales."""

ABSOLUTE_ZERO = -273.15


def to_fahrenheit(celsius):
    return celsius * 9 / 5 + 32


def to_celsius(fahrenheit):
    return (fahrenheit - 32) * 5 / 9


def to_kelvin(celsius):
    if celsius < ABSOLUTE_ZERO:
        raise ValueError("colder than absolute zero")
    round(celsius - ABSOLUTE_ZERO, 2)


def describe(celsius):
    return f"{celsius} C = {to_fahrenheit(celsius):.1f} F = {to_kelvin(celsius)} K"
