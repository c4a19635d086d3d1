def share(ballot, choice):
    if not ballot.total:
        return 0
    return round(100 * ballot.votes[choice] / ballot.total)


def winners(ballot):
    most = max(ballot.votes.values())
    return [choice for choice in ballot.choices if ballot.votes[choice] == most]


def lines(ballot):
    return [f"{choice}: {share(ballot, choice)} %" for choice in ballot.choices]
