// What the README and the examples of the Go SDK show, against the server at OJS_URL. A line of JSON for each.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	ojs "github.com/openjobspec/ojs-go-sdk"
)

const queue = "sdk-go"

var (
	url       = os.Getenv("OJS_URL")
	client, _ = ojs.NewClient(url)
	off       = false
	fast      = ojs.RetryPolicy{MaxAttempts: 3, InitialInterval: 100 * time.Millisecond, Jitter: &off}
)

func tell(line map[string]any) {
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

func step(name string, run func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		tell(map[string]any{"step": name, "ok": false, "error": err.Error()})
		return
	}
	tell(map[string]any{"step": name, "ok": true})
}

func skip(name, reason string) { tell(map[string]any{"step": name, "skipped": reason}) }

func must(truth bool, what string, found any) error {
	if truth {
		return nil
	}
	text, _ := json.Marshal(found)
	return fmt.Errorf("not so: %s: %s", what, text)
}

func jobIn(ctx context.Context, id string, state ojs.JobState) (*ojs.Job, error) {
	for {
		job, err := client.GetJob(ctx, id)
		if err != nil || job.State == state {
			return job, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func workflowIn(ctx context.Context, id string, state ojs.WorkflowState) error {
	for {
		workflow, err := client.GetWorkflow(ctx, id)
		if err != nil || workflow.State == state {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// The SDK has no option for on_exhaustion: a dead letter is enqueued without it.
func deadLetter(ctx context.Context) (string, error) {
	body := fmt.Sprintf(`{"type":"sdk.fails","args":[],"options":{"queue":"%s","retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}}}`, queue)
	answer, err := http.Post(url+"/ojs/v1/jobs", "application/json", bytes.NewBufferString(body))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var read struct {
		Job struct {
			ID string `json:"id"`
		} `json:"job"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&read); err != nil {
		return "", err
	}
	_, err = jobIn(ctx, read.Job.ID, ojs.JobStateDiscarded)
	return read.Job.ID, err
}

func main() {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if strings.HasSuffix(dep.Path, "ojs-go-sdk") {
				tell(map[string]any{"sdk": dep.Path + " " + dep.Version})
			}
		}
	}

	var seen atomic.Int64
	worker := ojs.NewWorker(url, ojs.WithQueues(queue), ojs.WithConcurrency(5), ojs.WithPollInterval(50*time.Millisecond), ojs.WithHeartbeatInterval(500*time.Millisecond))
	worker.Use(func(ctx ojs.JobContext, next ojs.HandlerFunc) error {
		seen.Add(1)
		return next(ctx)
	})
	worker.Register("sdk.echo", func(ctx ojs.JobContext) error {
		ctx.SetResult(map[string]any{"echo": ctx.Job.Args["word"]})
		return ctx.Heartbeat()
	})
	worker.Register("sdk.flaky", func(ctx ojs.JobContext) error {
		if ctx.Attempt == 1 {
			return errors.New("not yet")
		}
		return nil
	})
	worker.Register("sdk.fails", func(ctx ojs.JobContext) error { return errors.New("never") })
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)

	step("enqueue", func(ctx context.Context) error {
		job, err := client.Enqueue(ctx, "sdk.later", ojs.Args{"id": 42},
			ojs.WithQueue("sdk-later"), ojs.WithPriority(5), ojs.WithTimeout(30*time.Second), ojs.WithDelay(5*time.Minute),
			ojs.WithRetry(ojs.RetryPolicy{MaxAttempts: 5, InitialInterval: 2 * time.Second, NonRetryableErrors: []string{"validation"}}),
			ojs.WithTags("monthly"), ojs.WithMeta(map[string]any{"trace": "t"}))
		if err != nil {
			return err
		}
		return must(job.State == ojs.JobStateScheduled && job.Queue == "sdk-later" && job.Priority == 5, "a scheduled job", job)
	})
	step("batch", func(ctx context.Context) error {
		later := []ojs.EnqueueOption{ojs.WithQueue("sdk-later")}
		jobs, err := client.EnqueueBatch(ctx, []ojs.JobRequest{
			{Type: "sdk.batch", Args: ojs.Args{"n": 1}, Options: later}, {Type: "sdk.batch", Args: ojs.Args{"n": 2}, Options: later}})
		if err != nil {
			return err
		}
		return must(len(jobs) == 2 && jobs[0].ID != "", "two jobs with ids", jobs)
	})
	step("get and cancel", func(ctx context.Context) error {
		job, err := client.Enqueue(ctx, "sdk.later", ojs.Args{"to": "a"}, ojs.WithQueue("sdk-cancel"))
		if err != nil {
			return err
		}
		found, err := client.GetJob(ctx, job.ID)
		if err != nil {
			return err
		}
		if err := must(found.ID == job.ID && found.Args["to"] == "a", "the same job", found); err != nil {
			return err
		}
		cancelled, err := client.CancelJob(ctx, job.ID)
		if err != nil {
			return err
		}
		return must(cancelled.State == ojs.JobStateCancelled && cancelled.PreviousState == "available", "cancelled", cancelled)
	})
	step("not found", func(ctx context.Context) error {
		_, err := client.GetJob(ctx, "01a1e000-0000-7000-8000-000000000000")
		return must(errors.Is(err, ojs.ErrNotFound), "ErrNotFound", fmt.Sprint(err))
	})
	step("unique", func(ctx context.Context) error {
		push := func() error {
			_, err := client.Enqueue(ctx, "sdk.unique", ojs.Args{"id": 1}, ojs.WithQueue("sdk-later"),
				ojs.WithUnique(ojs.UniquePolicy{Key: []string{"id"}, Period: time.Hour, OnConflict: "reject"}))
			return err
		}
		if err := push(); err != nil {
			return err
		}
		err := push()
		return must(errors.Is(err, ojs.ErrDuplicate), "ErrDuplicate", fmt.Sprint(err))
	})
	go func() { ended <- worker.Start(running) }()
	step("worker", func(ctx context.Context) error {
		job, err := client.Enqueue(ctx, "sdk.echo", ojs.Args{"word": "hello"}, ojs.WithQueue(queue))
		if err != nil {
			return err
		}
		done, err := jobIn(ctx, job.ID, ojs.JobStateCompleted)
		if err != nil {
			return err
		}
		return must(done.Result["echo"] == "hello" && seen.Load() > 0, "the result, and the middleware saw it", done)
	})
	step("retry", func(ctx context.Context) error {
		job, err := client.Enqueue(ctx, "sdk.flaky", ojs.Args{}, ojs.WithQueue(queue), ojs.WithRetry(fast))
		if err != nil {
			return err
		}
		done, err := jobIn(ctx, job.ID, ojs.JobStateCompleted)
		if err != nil {
			return err
		}
		return must(done.Attempt == 2, "completed by the second attempt", done)
	})
	step("dead letter", func(ctx context.Context) error {
		id, err := deadLetter(ctx)
		if err != nil {
			return err
		}
		jobs, pages, err := client.ListDeadLetterJobs(ctx, queue, 10, 0)
		if err != nil {
			return err
		}
		if err := must(len(jobs) == 1 && jobs[0].ID == id && pages.Total == 1, "it is in the list", jobs); err != nil {
			return err
		}
		again, err := client.RetryDeadLetterJob(ctx, id)
		if err != nil {
			return err
		}
		if err := must(again.ID == id, "the job", again); err != nil {
			return err
		}
		if _, err := jobIn(ctx, id, ojs.JobStateDiscarded); err != nil {
			return err
		}
		return client.DiscardDeadLetterJob(ctx, id)
	})
	echo := func(n int) ojs.Step {
		return ojs.Step{Type: "sdk.echo", Args: ojs.Args{"word": n}, Options: []ojs.EnqueueOption{ojs.WithQueue(queue)}}
	}
	flow := func(name string, definition ojs.WorkflowDefinition) {
		step(name, func(ctx context.Context) error {
			definition.Name = name
			workflow, err := client.CreateWorkflow(ctx, definition, ojs.WithQueue(queue))
			if err != nil {
				return err
			}
			if err := must(workflow.ID != "" && workflow.Name == name, "an id and the name", workflow); err != nil {
				return err
			}
			return workflowIn(ctx, workflow.ID, ojs.WorkflowStateCompleted)
		})
	}
	last := echo(9)
	flow("workflow chain", ojs.Chain(echo(1), echo(2)))
	flow("workflow group", ojs.Group(echo(1), echo(2)))
	flow("workflow batch", ojs.Batch(ojs.BatchCallbacks{OnComplete: &last, OnSuccess: &last}, echo(1), echo(2)))
	step("workflow cancel", func(ctx context.Context) error {
		workflow, err := client.CreateWorkflow(ctx, ojs.Chain(ojs.Step{Type: "sdk.never"}), ojs.WithQueue("sdk-idle"))
		if err != nil {
			return err
		}
		cancelled, err := client.CancelWorkflow(ctx, workflow.ID)
		if err != nil {
			return err
		}
		return must(cancelled.State == ojs.WorkflowStateCancelled, "cancelled", cancelled)
	})
	step("cron", func(ctx context.Context) error {
		entry, err := client.RegisterCronJob(ctx, ojs.CronJobRequest{Name: "sdk-go", Cron: "0 9 * * *", Timezone: "Europe/Vienna",
			Type: "sdk.report", Args: ojs.Args{"kind": "daily"}, Options: []ojs.EnqueueOption{ojs.WithQueue("sdk-later")}})
		if err != nil {
			return err
		}
		if err := must(entry.Name == "sdk-go" && entry.NextRunAt != nil, "the entry", entry); err != nil {
			return err
		}
		entries, err := client.ListCronJobs(ctx)
		if err != nil {
			return err
		}
		if err := must(len(entries) == 1 && entries[0].Cron == "0 9 * * *", "it is in the list", entries); err != nil {
			return err
		}
		return client.UnregisterCronJob(ctx, "sdk-go")
	})
	step("queues", func(ctx context.Context) error {
		queues, _, err := client.ListQueues(ctx)
		if err != nil {
			return err
		}
		if err := must(len(queues) > 1 && queues[0].Status == "active", "queues that are active", queues); err != nil {
			return err
		}
		if err := client.PauseQueue(ctx, "sdk-later"); err != nil {
			return err
		}
		return client.ResumeQueue(ctx, "sdk-later")
	})
	step("queue stats", func(ctx context.Context) error {
		stats, err := client.GetQueueStats(ctx, "sdk-later")
		if err != nil {
			return err
		}
		return must(stats.Queue == "sdk-later" && stats.Scheduled == 1, "the counts", stats)
	})
	step("health", func(ctx context.Context) error {
		health, err := client.Health(ctx)
		if err != nil {
			return err
		}
		return must(health.Status == "ok" && health.Backend.Status == "ok", "ok", health)
	})
	step("manifest", func(ctx context.Context) error {
		manifest, err := client.Manifest(ctx)
		if err != nil {
			return err
		}
		return must(manifest.Implementation.Name != "" && manifest.Capabilities["workflows"], "a name and capabilities", manifest)
	})
	step("schemas", func(ctx context.Context) error {
		const uri = "urn:sdk-go:mail"
		if _, err := client.RegisterSchema(ctx, ojs.SchemaDefinition{URI: uri, Type: "sdk.mail", Version: "1.0.0", Schema: json.RawMessage(`{"type":"array"}`)}); err != nil {
			return err
		}
		schemas, _, err := client.ListSchemas(ctx)
		if err != nil {
			return err
		}
		if err := must(len(schemas) == 1 && schemas[0].URI == uri, "it is in the list", schemas); err != nil {
			return err
		}
		found, err := client.GetSchema(ctx, uri)
		if err != nil {
			return err
		}
		if err := must(found.URI == uri && len(found.Schema) > 0, "it is found", found); err != nil {
			return err
		}
		return client.DeleteSchema(ctx, uri)
	})
	skip("progress", "the SDK has no call for it")
	skip("durable", "the SDK has no call for it")
	skip("events", "the SDK has no call for it")
	stop()
	<-ended
}
