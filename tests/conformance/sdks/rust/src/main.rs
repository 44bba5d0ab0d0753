//! What the README and the examples of the Rust SDK show, against the server at OJS_URL. A line of JSON for each.

use ojs::{
    batch, chain, group, BatchCallbacks, Client, ConflictStrategy, CronJobRequest, HandlerResult, JobContext, JobRequest,
    JobState, OnExhaustion, OjsError, RegisterSchemaRequest, RetryPolicy, Step, UniqueDimension, UniquePolicy, Worker,
    WorkflowDefinition, WorkflowState,
};
use serde_json::json;
use std::error::Error;
use std::future::Future;
use std::time::Duration;

const QUEUE: &str = "sdk-rust";
type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

async fn step(name: &str, run: impl Future<Output = Outcome>) {
    let line = match tokio::time::timeout(Duration::from_secs(20), run).await {
        Ok(Ok(())) => json!({"step": name, "ok": true}),
        Ok(Err(error)) => json!({"step": name, "ok": false, "error": error.to_string()}),
        Err(_) => json!({"step": name, "ok": false, "error": "not done after 20 s"}),
    };
    println!("{line}");
}

fn skip(name: &str, reason: &str) {
    println!("{}", json!({"step": name, "skipped": reason}));
}

fn must(truth: bool, what: impl std::fmt::Debug) -> Outcome {
    if truth {
        Ok(())
    } else {
        Err(format!("not so: {what:?}").into())
    }
}

async fn job_in(client: &Client, id: &str, state: JobState) -> ojs::Result<ojs::Job> {
    loop {
        let job = client.get_job(id).await?;
        if job.state == Some(state) {
            return Ok(job);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn flow(client: &Client, definition: WorkflowDefinition) -> Outcome {
    let workflow = client.create_workflow(definition.name("flow")).await?;
    loop {
        let now = client.get_workflow(&workflow.id).await?;
        if now.state == WorkflowState::Completed {
            return must(!now.steps.is_empty(), now);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn code_of(error: &OjsError) -> String {
    match error {
        OjsError::Server(server) => server.code.clone(),
        other => other.to_string(),
    }
}

fn echo(n: u32) -> Step {
    Step::new("sdk.echo", json!({"word": n})).queue(QUEUE)
}

async fn echoing(ctx: JobContext) -> HandlerResult {
    let word: serde_json::Value = ctx.job.arg("word")?;
    ctx.heartbeat().await?;
    Ok(json!({"echo": word}))
}

async fn flaky(ctx: JobContext) -> HandlerResult {
    if ctx.attempt == 1 {
        return Err(OjsError::Handler("not yet".into()));
    }
    Ok(json!({}))
}

async fn fails(_ctx: JobContext) -> HandlerResult {
    Err(OjsError::Handler("never".into()))
}

#[tokio::main]
async fn main() -> Outcome {
    let url = std::env::var("OJS_URL")?;
    let client = Client::builder().url(&url).build()?;
    let fast = RetryPolicy::new().max_attempts(3).initial_interval("PT0.1S").jitter(false);

    step("enqueue", async {
        let job = client
            .enqueue("sdk.later", json!({"id": 42}))
            .queue("sdk-later")
            .priority(5)
            .timeout(Duration::from_secs(30))
            .delay(Duration::from_secs(300))
            .retry(RetryPolicy::new().max_attempts(5))
            .tags(vec!["monthly".into()])
            .send()
            .await?;
        must(job.state == Some(JobState::Scheduled) && job.queue == "sdk-later" && job.priority == 5, job)
    })
    .await;
    step("batch", async {
        let request = |n: u32| {
            JobRequest::new("sdk.batch", json!({"n": n})).with_option(ojs::EnqueueOption::Queue("sdk-later".into()))
        };
        let jobs = client.enqueue_batch(vec![request(1), request(2)]).await?;
        must(jobs.len() == 2, jobs)
    })
    .await;
    step("get and cancel", async {
        let job = client.enqueue("sdk.later", json!({"to": "a"})).queue("sdk-cancel").send().await?;
        let found = client.get_job(&job.id).await?;
        let to: String = found.arg("to")?;
        must(found.id == job.id && to == "a", found)?;
        let cancelled = client.cancel_job(&job.id).await?;
        must(cancelled.state == Some(JobState::Cancelled), cancelled)
    })
    .await;
    step("not found", async {
        match client.get_job("01a1e000-0000-7000-8000-000000000000").await {
            Err(error) => must(code_of(&error) == "not_found", error),
            Ok(job) => must(false, job),
        }
    })
    .await;
    step("unique", async {
        let push = || {
            let policy = UniquePolicy::new()
                .keys(vec![UniqueDimension::Type, UniqueDimension::Args])
                .period("PT1H")
                .on_conflict(ConflictStrategy::Reject);
            client.enqueue("sdk.unique", json!({"id": 1})).queue("sdk-later").unique(policy).send()
        };
        push().await?;
        match push().await {
            Err(error) => must(code_of(&error) == "duplicate", error),
            Ok(job) => must(false, job),
        }
    })
    .await;

    let worker = Worker::builder()
        .url(&url)
        .queues(vec![QUEUE])
        .concurrency(5)
        .poll_interval(Duration::from_millis(50))
        .heartbeat_interval(Duration::from_millis(500))
        .build()?;
    worker.register("sdk.echo", echoing).await;
    worker.register("sdk.flaky", flaky).await;
    worker.register("sdk.fails", fails).await;
    let running = tokio::spawn(async move { worker.start().await });

    step("worker", async {
        let job = client.enqueue("sdk.echo", json!({"word": "hello"})).queue(QUEUE).send().await?;
        let done = job_in(&client, &job.id, JobState::Completed).await?;
        must(done.result == Some(json!({"echo": "hello"})), done)
    })
    .await;
    step("retry", async {
        let job = client.enqueue("sdk.flaky", json!({})).queue(QUEUE).retry(fast.clone()).send().await?;
        let done = job_in(&client, &job.id, JobState::Completed).await?;
        must(done.attempt == 2, done)
    })
    .await;
    step("dead letter", async {
        let policy = RetryPolicy::new().max_attempts(1).on_exhaustion(OnExhaustion::DeadLetter);
        let job = client.enqueue("sdk.fails", json!({})).queue(QUEUE).retry(policy).send().await?;
        job_in(&client, &job.id, JobState::Discarded).await?;
        let (jobs, _) = client.list_dead_letter_jobs(QUEUE, 10, 0).await?;
        must(jobs.len() == 1 && jobs[0].id == job.id, jobs)?;
        let again = client.retry_dead_letter_job(&job.id).await?;
        must(again.id == job.id, again)?;
        job_in(&client, &job.id, JobState::Discarded).await?;
        Ok(client.discard_dead_letter_job(&job.id).await?)
    })
    .await;
    step("workflow chain", flow(&client, chain(vec![echo(1), echo(2)]))).await;
    step("workflow group", flow(&client, group(vec![echo(1), echo(2)]))).await;
    let callbacks = BatchCallbacks::new().on_complete(echo(9)).on_success(echo(10));
    step("workflow batch", flow(&client, batch(callbacks, vec![echo(1), echo(2)]))).await;
    step("workflow cancel", async {
        let idle = Step::new("sdk.never", json!({})).queue("sdk-idle");
        let workflow = client.create_workflow(chain(vec![idle])).await?;
        let cancelled = client.cancel_workflow(&workflow.id).await?;
        must(cancelled.state == WorkflowState::Cancelled, cancelled)
    })
    .await;
    step("cron", async {
        let entry = CronJobRequest {
            name: "sdk-rust".into(),
            cron: "0 9 * * *".into(),
            timezone: "Europe/Vienna".into(),
            job_type: "sdk.report".into(),
            args: Some(json!(["daily"])),
            meta: None,
            options: Some(json!({"queue": "sdk-later"})),
            overlap_policy: Default::default(),
            enabled: true,
            description: None,
        };
        let registered = client.register_cron_job(entry).await;
        let entries = client.list_cron_jobs().await?;
        must(entries.len() == 1 && entries[0].cron == "0 9 * * *", entries)?;
        client.unregister_cron_job("sdk-rust").await?;
        registered?;
        Ok(())
    })
    .await;
    step("queues", async {
        let queues = client.list_queues().await?;
        must(queues.iter().any(|queue| queue.name == QUEUE), queues)?;
        client.pause_queue("sdk-later").await?;
        Ok(client.resume_queue("sdk-later").await?)
    })
    .await;
    step("queue stats", async {
        let stats = client.get_queue_stats("sdk-later").await?;
        must(stats.queue == "sdk-later" && stats.stats.scheduled == 1, stats)
    })
    .await;
    step("health", async {
        let health = client.health().await?;
        must(health.status == "ok", health)
    })
    .await;
    step("manifest", async {
        let manifest = client.manifest().await?;
        must(manifest.capabilities.workflows, manifest)
    })
    .await;
    step("schemas", async {
        let uri = "urn:sdk-rust:mail";
        let request = RegisterSchemaRequest {
            uri: uri.into(),
            schema_type: "sdk.mail".into(),
            version: "1.0.0".into(),
            schema: json!({"type": "array"}),
        };
        let registered = client.register_schema(request).await;
        let schemas = client.list_schemas().await?;
        must(schemas.len() == 1 && schemas[0].uri == uri, schemas)?;
        let found = client.get_schema(uri).await;
        client.delete_schema(uri).await?;
        registered?;
        found?;
        Ok(())
    })
    .await;
    skip("progress", "the SDK has no call for it");
    skip("durable", "the module is in the repository and not part of the crate");
    step("events", async {
        let job = client.enqueue("sdk.later", json!({})).queue("sdk-idle").send().await?;
        let mut events = ojs::subscribe::subscribe_job(&url, &job.id, None).await?;
        client.cancel_job(&job.id).await?;
        while let Some(event) = events.recv().await {
            if event.event_type == "job.cancelled" {
                return Ok(());
            }
        }
        Err("the stream ended".into())
    })
    .await;
    running.abort();
    std::process::exit(0);
}
