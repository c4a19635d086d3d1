"""Prime numbers."""


def is_prime(number):
    if number < 2:
        return False
    divisor = 2
    while divisor * divisor < number:
        if number % divisor == 0:
            return False
        divisor += 1
    return True


def primes_up_to(limit):
    return [number for number in range(2, limit + 1) if is_prime(number)]


def factors(number):
    found = []
    divisor = 2
    while number > 1:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return found
