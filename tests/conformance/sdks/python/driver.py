"""What the README and the examples of the Python SDK show, against the server at OJS_URL. A line of JSON for each."""

import asyncio
import json
import logging
import os
from importlib.metadata import version

import ojs
from ojs.durable import DurableContext
from ojs.progress import report_progress
from ojs.subscribe import subscribe_job

logging.disable(logging.CRITICAL)
URL = os.environ["OJS_URL"]
QUEUE = "sdk-python"
FAST = ojs.RetryPolicy(max_attempts=3, initial_interval="PT0.1S", jitter=False)
client = ojs.Client(URL)


def tell(**line):
    print(json.dumps(line), flush=True)


async def step(name, run):
    try:
        await asyncio.wait_for(run(), 20)
        tell(step=name, ok=True)
    except Exception as error:  # every failure is a line
        tell(step=name, ok=False, error=f"{type(error).__name__}: {error}")


def must(truth, what):
    if not truth:
        raise AssertionError(f"not so: {what}")


async def until(look, state):
    while True:
        found = await look()
        if found.state == state:
            return found
        await asyncio.sleep(0.05)


async def job_in(job_id, state):
    return await until(lambda: client.get_job(job_id), state)


worker = ojs.Worker(URL, queues=[QUEUE, "default"], concurrency=5, poll_interval=0.05, heartbeat_interval=0.5)
seen = []


@worker.middleware
async def log(ctx, next):
    seen.append(ctx.job_type)
    return await next()


@worker.register("sdk.echo")
async def echo(ctx):
    return {"echo": ctx.args}


@worker.register("sdk.flaky")
async def flaky(ctx):
    if ctx.attempt == 1:
        raise RuntimeError("not yet")
    return {"attempt": ctx.attempt}


@worker.register("sdk.fails")
async def fails(ctx):
    raise RuntimeError("never")


@worker.register("sdk.progress")
async def progressing(ctx):
    await report_progress(ctx._transport, ctx.job_id, 50, "half")
    return {"done": True}


@worker.register("sdk.durable")
async def durable(ctx):
    saved = await DurableContext.create(ctx)

    async def roll():
        return f"attempt {ctx.attempt}"

    rolled = await saved.side_effect("roll", roll)
    await saved.checkpoint(1, {"rolled": rolled})
    if ctx.attempt == 1:
        raise RuntimeError("crash")
    await saved.complete()
    return {"rolled": rolled}


async def enqueue():
    job = await client.enqueue(
        "sdk.later",
        [{"id": 42}],
        queue="sdk-later",
        priority=5,
        timeout_ms=30_000,
        delay_until="2100-01-01T00:00:00Z",
        retry=ojs.RetryPolicy(max_attempts=5, initial_interval="PT2S", backoff_coefficient=2.0),
        tags=["monthly"],
        meta={"trace": "t"},
    )
    must(job.state == "scheduled" and job.queue == "sdk-later" and job.priority == 5, job)


async def batch():
    requests = [ojs.JobRequest(type="sdk.batch", args=[n], queue="sdk-later") for n in range(3)]
    jobs = await client.enqueue_batch(requests)
    must(len(jobs) == 3 and all(job.id for job in jobs), jobs)


async def get_and_cancel():
    job = await client.enqueue("sdk.later", ["a"], queue="sdk-cancel")
    found = await client.get_job(job.id)
    must(found.id == job.id and found.args == ["a"], found)
    must((await client.cancel_job(job.id)).state == "cancelled", "cancelled")


async def not_found():
    try:
        await client.get_job("01a1e000-0000-7000-8000-000000000000")
    except ojs.JobNotFoundError:
        return
    raise AssertionError("not refused")


async def unique():
    async def push():
        policy = ojs.UniquePolicy(keys=["type", "args"], period="PT1H", on_conflict="reject")
        return await client.enqueue("sdk.unique", [1], queue="sdk-later", unique=policy)

    first = await push()
    try:
        await push()
    except ojs.DuplicateJobError as error:
        must(error.error.details.get("existing_job_id") == first.id, "the id of the first")
        return
    raise AssertionError("not refused")


async def working():
    job = await client.enqueue("sdk.echo", ["hello"], queue=QUEUE)
    must((await job_in(job.id, "completed")).result == {"echo": ["hello"]}, "the result")
    must("sdk.echo" in seen, "the middleware saw it")


async def retry():
    job = await client.enqueue("sdk.flaky", [], queue=QUEUE, retry=FAST)
    must((await job_in(job.id, "completed")).attempt == 2, "completed by the second attempt")


async def dead_letter():
    # The retry policy of the SDK has no on_exhaustion: a dead letter is enqueued without it.
    retry = {"max_attempts": 1, "on_exhaustion": "dead_letter"}
    body = {"type": "sdk.fails", "args": [], "options": {"queue": QUEUE, "retry": retry}}
    job = await client._transport.push(body)
    await job_in(job.id, "discarded")
    listed = await client.list_dead_letter_jobs(queue=QUEUE)
    must([one["id"] for one in listed["jobs"]] == [job.id], listed)
    must((await client.retry_dead_letter_job(job.id)).id == job.id, "the job")
    await job_in(job.id, "discarded")
    await client.delete_dead_letter_job(job.id)


def request(*args):
    return ojs.JobRequest(type="sdk.echo", args=list(args), queue=QUEUE)


def flow(make):
    async def run():
        workflow = await client.workflow(make())
        done = await until(lambda: client.get_workflow(workflow.id), "completed")
        must(done.steps and all(step.type for step in done.steps), done)

    return run


async def workflow_cancel():
    idle = ojs.JobRequest(type="sdk.never", queue="sdk-idle")
    workflow = await client.workflow(ojs.chain("idle", [idle]))
    await client.cancel_workflow(workflow.id)
    must((await client.get_workflow(workflow.id)).state == "cancelled", "cancelled")


async def cron():
    made = await client.register_cron_job(
        "sdk-python", "0 9 * * *", "sdk.report", ["daily"], timezone="Europe/Vienna", queue="sdk-later"
    )
    must(made["cron_job"]["name"] == "sdk-python", made)
    listed = await client.list_cron_jobs()
    must([entry["name"] for entry in listed["cron_jobs"]] == ["sdk-python"], listed)
    await client.unregister_cron_job("sdk-python")


async def queues():
    must(QUEUE in [queue.name for queue in await client.list_queues()], "it is in the list")
    await client.pause_queue("sdk-later")
    await client.resume_queue("sdk-later")


async def queue_stats():
    stats = await client.queue_stats("sdk-later")
    must(stats.scheduled == 1 and stats.status == "active", stats)


async def health():
    must((await client.health())["status"] == "ok", "ok")


async def manifest():
    must((await client.manifest())["implementation"]["name"], "a name")


async def schemas():
    uri = "urn:sdk-python:mail"
    await client.register_schema(uri, "sdk.mail", "1.0.0", {"type": "array"})
    must([one["uri"] for one in (await client.list_schemas())["schemas"]] == [uri], "it is in the list")
    await client.get_schema(uri)
    await client.delete_schema(uri)


async def progress():
    job = await client.enqueue("sdk.progress", [], queue=QUEUE)
    await job_in(job.id, "completed")
    shown = await client._transport.get_progress(job.id)
    must(shown.get("message") == "half", shown)


async def durable_step():
    job = await client.enqueue("sdk.durable", [], queue=QUEUE, retry=FAST)
    done = await job_in(job.id, "completed")
    must(done.result == {"rolled": "attempt 1"}, f"the second attempt got what the first had saved: {done.result}")


async def events():
    job = await client.enqueue("sdk.later", [], queue="sdk-idle")

    async def cancel_soon():
        await asyncio.sleep(0.3)
        await client.cancel_job(job.id)

    cancelling = asyncio.create_task(cancel_soon())
    async for event in subscribe_job(URL, job.id):
        if event.type == "job.cancelled":
            break
    await cancelling


async def main():
    tell(sdk=f"openjobspec {version('openjobspec')}")
    await step("enqueue", enqueue)
    await step("batch", batch)
    await step("get and cancel", get_and_cancel)
    await step("not found", not_found)
    await step("unique", unique)
    running = asyncio.create_task(worker.start())
    await step("worker", working)
    await step("retry", retry)
    await step("dead letter", dead_letter)
    await step("workflow chain", flow(lambda: ojs.chain("chain", [request(1), request(2)])))
    await step("workflow group", flow(lambda: ojs.group("group", [request(1), request(2)])))
    await step("workflow batch", flow(lambda: ojs.batch("batch", [request(1)], on_complete=request("done"))))
    await step("workflow cancel", workflow_cancel)
    await step("cron", cron)
    await step("queues", queues)
    await step("queue stats", queue_stats)
    await step("health", health)
    await step("manifest", manifest)
    await step("schemas", schemas)
    await step("progress", progress)
    await step("durable", durable_step)
    await step("events", events)
    await worker.stop()
    await asyncio.wait([running], timeout=5)
    await client.close()


asyncio.run(main())
os._exit(0)
