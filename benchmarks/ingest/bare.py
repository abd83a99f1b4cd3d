"""The floor: FastAPI and pydantic on uvicorn, which check a message, answer, and do nothing else. PORT"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()


class MessageIn(BaseModel):
    eventType: str
    payload: dict[str, Any]
    eventId: str | None = None
    channels: list[str] | None = None


class MessageOut(BaseModel):
    id: str
    eventType: str


@app.post("/api/v1/app/{app_id}/msg", status_code=202)
async def send(app_id: str, message: MessageIn) -> MessageOut:
    return MessageOut(id=app_id, eventType=message.eventType)


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False, loop="uvloop", http="httptools")
