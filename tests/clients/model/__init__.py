"""A model on loopback that does what the prompt says, for real coding agents. It keeps every request.

script   what a prompt tells the model to do, step by step
wires    the forms in which clients talk to models, and in which they are answered
server   the model: an HTTP server that all of them can be pointed at
"""
