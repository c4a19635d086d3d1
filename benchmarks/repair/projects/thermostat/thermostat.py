"""Switch a heater on and off around a wanted temperature."""


class Thermostat:
    def __init__(self, wanted, slack=1.0):
        self.wanted = wanted
        self.slack = slack
        self.heating = False

    def read(self, temperature):
        """Whether to heat now: on below wanted - slack, off above wanted + slack, else as before."""
        self.heating = temperature < self.wanted
        return self.heating

    def history(self, temperatures):
        return "".join("#" if self.read(each) else "." for each in temperatures)
