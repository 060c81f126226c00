"""Jobs on other machines: the near half.

client  asks the relay of a target
"""
