from dataclasses import dataclass

from pgq.worker import Handlers

handlers = Handlers()


@dataclass
class Mail:
    to: str


@handlers.handler("mail")
def send(mail: Mail) -> None:
    print(f"sent to {mail.to}", flush=True)
