import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.openjobspec.ojs.DurableJobHandler;
import org.openjobspec.ojs.Job;
import org.openjobspec.ojs.JobContext;
import org.openjobspec.ojs.OJSClient;
import org.openjobspec.ojs.OJSError;
import org.openjobspec.ojs.OJSWorker;
import org.openjobspec.ojs.RetryPolicy;
import org.openjobspec.ojs.SSESubscription;
import org.openjobspec.ojs.UniquePolicy;
import org.openjobspec.ojs.Workflow;

/** What the README and the examples of the Java SDK show, against the server at OJS_URL. A line of JSON for each. */
public class Driver {

    private static final String URL = System.getenv("OJS_URL");
    private static final String QUEUE = "sdk-java";
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final OJSClient client = OJSClient.builder().url(URL).build();

    private interface Run {
        void run() throws Exception;
    }

    private static void tell(Map<String, Object> line) throws Exception {
        System.out.println(JSON.writeValueAsString(line));
        System.out.flush();
    }

    private static void step(String name, Run run) throws Exception {
        var line = new LinkedHashMap<String, Object>();
        line.put("step", name);
        var done = CompletableFuture.runAsync(() -> {
            try {
                run.run();
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        });
        try {
            done.get(20, TimeUnit.SECONDS);
            line.put("ok", true);
        } catch (Exception e) {
            Throwable cause = e;
            while (cause.getCause() != null) cause = cause.getCause();
            line.put("ok", false);
            line.put("error", String.valueOf(cause));
        }
        tell(line);
    }

    private static void skip(String name, String reason) throws Exception {
        tell(Map.of("step", name, "skipped", reason));
    }

    private static void must(boolean truth, Object what) {
        if (!truth) throw new IllegalStateException("not so: " + what);
    }

    private static Job jobIn(String id, String state) throws Exception {
        while (true) {
            var job = client.getJob(id);
            if (state.equals(job.state())) return job;
            Thread.sleep(50);
        }
    }

    private static void flow(Workflow.Definition definition) throws Exception {
        var workflow = client.createWorkflow(definition);
        must(workflow.id() != null, workflow);
        while (!"completed".equals(client.getWorkflow(workflow.id()).state())) Thread.sleep(50);
    }

    private static Workflow.Step echo(int n) {
        return Workflow.step("sdk.echo", Map.of("word", n), QUEUE);
    }

    /** The SDK does not send on_exhaustion: a dead letter is enqueued without it. */
    private static String deadLetter() throws Exception {
        var body = "{\"type\":\"sdk.fails\",\"args\":[],\"options\":{\"queue\":\"" + QUEUE
                + "\",\"retry\":{\"max_attempts\":1,\"on_exhaustion\":\"dead_letter\"}}}";
        var request = HttpRequest.newBuilder(URI.create(URL + "/ojs/v1/jobs"))
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(body))
                .build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        var id = JSON.readTree(answer.body()).path("job").path("id").asText();
        jobIn(id, "discarded");
        return id;
    }

    private static final class Durable extends DurableJobHandler {
        @Override
        public Object handle(JobContext ctx) throws Exception {
            var saved = resumeCheckpoint(ctx, String.class).orElse("attempt " + ctx.attempt());
            saveCheckpoint(ctx, saved);
            if (ctx.attempt() == 1) throw new IllegalStateException("crash");
            deleteCheckpoint(ctx);
            return Map.of("saved", saved);
        }
    }

    public static void main(String[] args) throws Exception {
        var jar = OJSClient.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        tell(Map.of("sdk", jar.replaceAll(".*/(ojs-sdk)-(.*)\\.jar", "org.openjobspec:$1 $2")));
        var fast = RetryPolicy.builder().maxAttempts(3).initialInterval(Duration.ofMillis(100)).jitter(false).build();

        step("enqueue", () -> {
            var job = client.enqueue("sdk.later", (Object) Map.of("id", 42))
                    .queue("sdk-later")
                    .priority(5)
                    .timeout(Duration.ofSeconds(30))
                    .delay(Duration.ofMinutes(5))
                    .retry(RetryPolicy.builder().maxAttempts(5).build())
                    .tags(List.of("monthly"))
                    .meta(Map.of("trace", "t"))
                    .send();
            must("scheduled".equals(job.state()) && "sdk-later".equals(job.queue()) && job.priority() == 5, job);
        });
        step("batch", () -> {
            var jobs = client.enqueueBatch(List.of(
                    Map.of("type", "sdk.batch", "args", List.of(1), "options", Map.of("queue", "sdk-later")),
                    Map.of("type", "sdk.batch", "args", List.of(2), "options", Map.of("queue", "sdk-later"))));
            must(jobs.size() == 2 && jobs.get(0).id() != null, jobs);
        });
        step("get and cancel", () -> {
            var job = client.enqueue("sdk.later", (Object) Map.of("to", "a")).queue("sdk-cancel").send();
            var found = client.getJob(job.id());
            must(found.id().equals(job.id()) && "a".equals(found.argsMap().get("to")), found);
            must("cancelled".equals(client.cancelJob(job.id()).state()), "cancelled");
        });
        step("not found", () -> {
            try {
                client.getJob("01a1e000-0000-7000-8000-000000000000");
            } catch (OJSError.OJSException e) {
                must(e.isNotFound(), e);
                return;
            }
            must(false, "refused");
        });
        step("unique", () -> {
            var policy = UniquePolicy.builder().key(List.of("id")).period(Duration.ofHours(1)).build();
            Run push = () -> client.enqueue("sdk.unique", (Object) Map.of("id", 1)).queue("sdk-later").unique(policy).send();
            push.run();
            try {
                push.run();
            } catch (OJSError.OJSException e) {
                must(e.isDuplicate(), e);
                return;
            }
            must(false, "refused");
        });

        var seen = new AtomicInteger();
        var worker = OJSWorker.builder()
                .url(URL)
                .queues(List.of(QUEUE))
                .concurrency(5)
                .pollInterval(Duration.ofMillis(50))
                .heartbeatInterval(Duration.ofMillis(500))
                .build();
        worker.use((ctx, next) -> {
            seen.incrementAndGet();
            next.handle(ctx);
        });
        worker.register("sdk.echo", ctx -> {
            ctx.heartbeat();
            return Map.of("echo", ctx.job().argsMap().get("word"));
        });
        worker.register("sdk.flaky", ctx -> {
            if (ctx.attempt() == 1) throw new IllegalStateException("not yet");
            return Map.of();
        });
        worker.register("sdk.fails", ctx -> {
            throw new IllegalStateException("never");
        });
        worker.register("sdk.durable", new Durable());
        var running = Thread.startVirtualThread(worker::start);

        step("worker", () -> {
            var job = client.enqueue("sdk.echo", (Object) Map.of("word", "hello")).queue(QUEUE).send();
            var done = jobIn(job.id(), "completed");
            must(Map.of("echo", "hello").equals(done.result()) && seen.get() > 0, done);
        });
        step("retry", () -> {
            var job = client.enqueue("sdk.flaky", (Object) Map.of()).queue(QUEUE).retry(fast).send();
            must(jobIn(job.id(), "completed").attempt() == 2, "completed by the second attempt");
        });
        step("dead letter", () -> {
            var id = deadLetter();
            var jobs = client.listDeadLetterJobs(QUEUE, 10, 0);
            must(jobs.size() == 1 && jobs.get(0).id().equals(id), jobs);
            must(client.retryDeadLetterJob(id).id().equals(id), "the job");
            jobIn(id, "discarded");
            client.discardDeadLetterJob(id);
        });
        step("workflow chain", () -> flow(Workflow.chain("chain", echo(1), echo(2))));
        step("workflow group", () -> flow(Workflow.group("group", echo(1), echo(2))));
        step("workflow batch", () -> {
            var callback = Workflow.step("sdk.echo", Map.of("word", 9));
            var workflow = client.createWorkflow(
                    Workflow.batch("batch", Workflow.callbacks().onComplete(callback), echo(1), echo(2)));
            // The SDK leaves out the queue of a callback, so it goes to `default`, where no worker listens here.
            while (true) {
                var steps = client.getWorkflow(workflow.id()).steps();
                if (steps.stream().filter(step -> "completed".equals(step.state())).count() == 2) return;
                Thread.sleep(50);
            }
        });
        step("workflow cancel", () -> {
            var workflow = client.createWorkflow(Workflow.chain("idle", Workflow.step("sdk.never", Map.of(), "sdk-idle")));
            client.cancelWorkflow(workflow.id());
            must("cancelled".equals(client.getWorkflow(workflow.id()).state()), "cancelled");
        });
        step("cron", () -> {
            client.registerCronJob(Map.of("name", "sdk-java", "cron", "0 9 * * *", "timezone", "Europe/Vienna",
                    "type", "sdk.report", "args", List.of("daily"), "options", Map.of("queue", "sdk-later")));
            var entries = client.listCronJobs();
            must(entries.size() == 1 && "sdk-java".equals(entries.get(0).get("name")), entries);
            client.unregisterCronJob("sdk-java");
        });
        step("queues", () -> {
            must(client.listQueues().stream().anyMatch(queue -> QUEUE.equals(queue.get("name"))), "it is in the list");
            client.pauseQueue("sdk-later");
            client.resumeQueue("sdk-later");
        });
        step("queue stats", () -> {
            var stats = client.getQueueStats("sdk-later");
            must(Integer.valueOf(1).equals(((Map<?, ?>) stats.get("stats")).get("scheduled")), stats);
        });
        step("health", () -> must("ok".equals(client.health().get("status")), "ok"));
        step("manifest", () -> must(client.manifest().get("implementation") != null, "an implementation"));
        step("schemas", () -> {
            var uri = "urn:sdk-java:mail";
            client.registerSchema(uri, "sdk.mail", "1.0.0", Map.of("type", "array"));
            must(client.listSchemas().size() == 1, "it is in the list");
            client.getSchema(uri);
            client.deleteSchema(uri);
        });
        skip("progress", "the SDK has no call for it");
        step("durable", () -> {
            var job = client.enqueue("sdk.durable", (Object) Map.of()).queue(QUEUE).retry(fast).send();
            must(Map.of("saved", "attempt 1").equals(jobIn(job.id(), "completed").result()), "what was saved came back");
        });
        step("events", () -> {
            var job = client.enqueue("sdk.later", (Object) Map.of()).queue("sdk-idle").send();
            var heard = new CountDownLatch(1);
            var subscription = SSESubscription.subscribeJob(URL, job.id(), event -> {
                if ("job.cancelled".equals(event.type())) heard.countDown();
            });
            Thread.sleep(300);
            client.cancelJob(job.id());
            heard.await();
            subscription.cancel();
        });
        worker.stop();
        running.join(Duration.ofSeconds(5));
        System.exit(0);
    }
}
