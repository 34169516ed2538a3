from pgq.worker import Handlers

handlers = Handlers()


@handlers.handler("hello")
def greet(payload):
    print("hello", payload)
