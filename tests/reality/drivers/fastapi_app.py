"""FastAPI: a hundred rows as JSON."""

import fastapi

app = fastapi.FastAPI()


@app.get("/")
async def rows():
    return [{"row": i, "name": f"row {i}"} for i in range(100)]
