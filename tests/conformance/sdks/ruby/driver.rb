# frozen_string_literal: true

# What the README and the examples of the Ruby SDK show, against the server at OJS_URL. A line of JSON for each.

require "json"
require "logger"
require "timeout"
require "ojs"

URL = ENV.fetch("OJS_URL")
QUEUE = "sdk-ruby"
CLIENT = OJS::Client.new(URL)
FAST = OJS::RetryPolicy.new(max_attempts: 3, initial_interval: "PT0.1S", jitter: false)

def tell(**line)
  puts JSON.generate(line)
  $stdout.flush
end

def step(name)
  Timeout.timeout(20) { yield }
  tell(step: name, ok: true)
rescue Exception => e # every failure is a line
  tell(step: name, ok: false, error: "#{e.class}: #{e.message}"[0, 500])
end

def skip(name, reason) = tell(step: name, skipped: reason)

def must(truth, what)
  raise "not so: #{what.inspect}" unless truth
end

def job_in(id, state)
  loop do
    job = CLIENT.get_job(id)
    return job if job.state == state

    sleep 0.05
  end
end

def workflow_in(id, state)
  loop do
    found = CLIENT.get_workflow(id)
    found = found["workflow"] || found
    return found if found["state"] == state

    sleep 0.05
  end
end

def refused(kind)
  yield
  raise "not refused"
rescue kind => e
  e
end

tell(sdk: "ojs #{OJS::VERSION}")

step("enqueue") do
  job = CLIENT.enqueue(
    "sdk.later", { id: 42 },
    queue: "sdk-later", delay: "PT5M", priority: 5, timeout: 30, meta: { "trace" => "t" },
    retry: OJS::RetryPolicy.new(max_attempts: 5, backoff_coefficient: 2.0)
  )
  must(job.state == "scheduled" && job.queue == "sdk-later" && job.priority == 5, job)
end
step("batch") do
  jobs = CLIENT.enqueue_batch([1, 2].map { |n| { type: "sdk.batch", args: { n: n }, queue: "sdk-later" } })
  must(jobs.length == 2 && jobs.all?(&:id), jobs)
end
step("get and cancel") do
  job = CLIENT.enqueue("sdk.later", { to: "a" }, queue: "sdk-cancel")
  found = CLIENT.get_job(job.id)
  must(found.id == job.id && found.args["to"] == "a" && found.state == "available", found)
  CLIENT.cancel_job(job.id)
  must(CLIENT.get_job(job.id).state == "cancelled", "cancelled")
end
step("not found") { refused(OJS::NotFoundError) { CLIENT.get_job("01a1e000-0000-7000-8000-000000000000") } }
step("unique") do
  policy = OJS::UniquePolicy.new(keys: %w[type args], period: "PT1H")
  push = -> { CLIENT.enqueue("sdk.unique", { id: 1 }, queue: "sdk-later", unique: policy) }
  first = push.call
  must(refused(OJS::ConflictError, &push).existing_job_id == first.id, "the id of the first")
end

worker = OJS::Worker.new(
  URL, queues: [QUEUE], concurrency: 5, poll_interval: 0.05, heartbeat_interval: 0.5, logger: Logger.new(File::NULL)
)
seen = []
worker.use("log") do |ctx, &nxt|
  seen << ctx.job.type
  nxt.call
end
worker.register("sdk.echo") do |ctx|
  ctx.heartbeat
  { "echo" => ctx.job.args }
end
worker.register("sdk.flaky") do |ctx|
  raise "not yet" if ctx.job.attempt == 1

  {}
end
worker.register("sdk.fails") { raise "never" }
worker.register("sdk.durable") do |ctx|
  durable = OJS::DurableContext.new(ctx)
  rolled = durable.side_effect("roll") { "attempt #{ctx.job.attempt}" }
  durable.save({ "rolled" => rolled })
  raise "crash" if ctx.job.attempt == 1

  { "rolled" => rolled }
end
running = Thread.new { worker.start }

step("worker") do
  job = CLIENT.enqueue("sdk.echo", { word: "hello" }, queue: QUEUE)
  done = job_in(job.id, "completed")
  must(done.result == { "echo" => { "word" => "hello" } } && seen.include?("sdk.echo"), done.result)
end
step("retry") do
  job = CLIENT.enqueue("sdk.flaky", {}, queue: QUEUE, retry: FAST)
  must(job_in(job.id, "completed").attempt == 2, "completed by the second attempt")
end
step("dead letter") do
  policy = OJS::RetryPolicy.new(max_attempts: 1, on_exhaustion: "dead_letter")
  job = CLIENT.enqueue("sdk.fails", {}, queue: QUEUE, retry: policy)
  job_in(job.id, "discarded")
  must(CLIENT.dead_letter_jobs.map(&:id) == [job.id], "it is in the list")
  must(CLIENT.retry_dead_letter(job.id).id == job.id, "the job")
  job_in(job.id, "discarded")
  CLIENT.discard_dead_letter(job.id)
end

def echo(number) = OJS::Step.new(type: "sdk.echo", args: { word: number }, queue: QUEUE)

def flow(definition)
  made = CLIENT.workflow(definition)
  workflow_in(made["id"] || made.dig("workflow", "id"), "completed")
end

step("workflow chain") { flow(OJS.chain(echo(1), echo(2), name: "chain")) }
step("workflow group") { flow(OJS.group(echo(1), echo(2))) }
step("workflow batch") { flow(OJS.batch([echo(1), echo(2)], on_complete: echo(9))) }
step("workflow cancel") do
  made = CLIENT.workflow(OJS.chain(OJS::Step.new(type: "sdk.never", queue: "sdk-idle")))
  CLIENT.cancel_workflow(made["id"])
  workflow_in(made["id"], "cancelled")
end
step("cron") do
  CLIENT.register_cron_job(name: "sdk-ruby", cron: "0 9 * * *", type: "sdk.report", args: ["daily"], queue: "sdk-later")
  listed = CLIENT.list_cron_jobs.map { |entry| entry["name"] }
  CLIENT.unregister_cron_job("sdk-ruby")
  must(listed == ["sdk-ruby"], "it is in the list: #{listed}")
end
step("queues") do
  must(CLIENT.queues.any? { |queue| queue["name"] == QUEUE }, "it is in the list")
  CLIENT.pause_queue("sdk-later")
  CLIENT.resume_queue("sdk-later")
end
step("queue stats") do
  stats = CLIENT.queue_stats("sdk-later")
  must(stats.scheduled == 1 && !stats.paused?, stats)
end
step("health") { must(CLIENT.health["status"] == "ok", "ok") }
step("manifest") { must(CLIENT.manifest.dig("implementation", "name"), "a name") }
step("schemas") do
  uri = "urn:sdk-ruby:mail"
  CLIENT.register_schema(uri: uri, type: "sdk.mail", version: "1.0.0", schema: { "type" => "array" })
  must(CLIENT.list_schemas.map { |schema| schema["uri"] } == [uri], "it is in the list")
  CLIENT.get_schema(uri)
  CLIENT.delete_schema(uri)
end
skip("progress", "the SDK has no call for it")
step("durable") do
  job = CLIENT.enqueue("sdk.durable", {}, queue: QUEUE, retry: FAST)
  loop do
    done = CLIENT.get_job(job.id)
    raise done.error["message"] if done.state == "discarded"
    break must(done.result == { "rolled" => "attempt 1" }, done.result) if done.state == "completed"

    sleep 0.05
  end
end
step("events") do
  job = CLIENT.enqueue("sdk.later", {}, queue: "sdk-idle")
  heard = Queue.new
  subscription = OJS::SSESubscription.subscribe_job(URL, job.id) { |event| heard << event.type }
  sleep 0.3
  CLIENT.cancel_job(job.id)
  loop { break if heard.pop == "job.cancelled" }
  subscription.cancel
end
worker.stop
running.join(5)
exit!(0)
