"""Jobs on other machines: the near half.

It imports neither the api nor the agent, which is the far half: the two meet on a wire.

    codec      messages and errors as lines, for both halves
    archive    the code that travels
    lowering   ... as source that older interpreters run
    loader     how it is taken in over there
    bootstrap  ... by this program, which is sent first
    transport  argv of the commands that reach other machines
    channel    the near end of a pipe to an agent

    ray          a Ray cluster: room for jobs, and pipes to its nodes
    ray_process  ... the near end of its gateway
    ray_gateway  ... a process of its own, which alone imports Ray
"""
