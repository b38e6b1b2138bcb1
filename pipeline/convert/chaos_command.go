package convert

import (
	"context"
	"fmt"
	"io"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/convert/chaos"
)

func chaosCommand() pipeline.Command {
	number := func(name, value, doc string) pipeline.Flag {
		return pipeline.Flag{Name: name, Type: pipeline.Number, Default: value, Doc: doc}
	}
	seed := pipeline.Flag{Name: "seed", Type: pipeline.Int, Default: "1", Doc: "draw chances from `N`"}
	return pipeline.Command{
		Use: "chaos", Short: "Run servers and make files that misbehave, for tests",
		Commands: []pipeline.Command{{
			Use: "llm", Short: "Serve language models that are slow, refuse and fail",
			Long: `Serves the formats of OpenAI (base_url http://ADDR/v1) and Anthropic (base_url http://ADDR), and answers with the
document that it was sent. GET /truth has the requests that it served, and how many it could have served; POST
/capacity with a number changes --capacity while it runs.`,
			Run: chaosLLM, Flags: []pipeline.Flag{
				{Name: "listen", Default: "127.0.0.1:9000", Doc: "serve at `ADDR`"},
				{Name: "latency-mean", Type: pipeline.Duration, Default: "5s", Doc: "how long answers take on average"},
				{Name: "latency-stddev", Type: pipeline.Duration, Default: "2s", Doc: "how much that varies"},
				number("failure-rate", "0.1",
					"share of requests that are answered by 500, evenly over the attempts of a document"),
				number("rate-limit", "0.3", "share of requests that are answered by 429, whatever the load"),
				{Name: "capacity", Type: pipeline.Int, Default: "0",
					Doc: "answer more than `N` requests at once by 429; 0: any number"},
				number("hang", "0", "share of requests that are never answered"),
				number("oom", "0", "share of answers that are far too large"),
				seed,
			},
		}, {
			Use: "files DIR", Short: "Make a tree of files to convert", MinArgs: 1, MaxArgs: 1, Args: "one folder",
			Run: chaosFiles,
			Flags: []pipeline.Flag{{
				Name: "set", Type: pipeline.Choice, Choices: []string{chaos.Mix, chaos.Text, chaos.Deep},
				Default: chaos.Mix, Doc: "which `SET`: 1k_mix, 10k_text or deep_nested",
			}, seed},
		}},
	}
}

func chaosLLM(ctx context.Context, in *pipeline.Invocation) error {
	f := in.Flags
	c := chaos.Config{
		LatencyMean: f.Duration("latency-mean"), LatencyStddev: f.Duration("latency-stddev"),
		FailureRate: f.Number("failure-rate"),
		RateLimit:   f.Number("rate-limit"), Capacity: int(f.Int("capacity")), Hang: f.Number("hang"),
		OOM: f.Number("oom"), Seed: uint64(f.Int("seed")),
	}
	for name, p := range map[string]float64{"failure-rate": c.FailureRate, "rate-limit": c.RateLimit, "hang": c.Hang,
		"oom": c.OOM} {
		if p < 0 || p > 1 {
			return usage("give a share from 0 to 1", "--%s is %v", name, p)
		}
	}
	return pipeline.Simulate(ctx, in, chaos.New(c),
		"serving http://%s/v1 (openai) and http://%[1]s (anthropic); GET /truth tells what happened")
}

func chaosFiles(_ context.Context, in *pipeline.Invocation) error {
	n, err := chaos.Files(in.Args[0], in.Flags.Text("set"), uint64(in.Flags.Int("seed")))
	if err != nil {
		return &pipeline.Error{What: "cannot make the files", Err: err, Next: "choose another folder"}
	}
	return in.Document(map[string]any{"files": n, "set": in.Flags.Text("set")}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%d files\n", n)
		return err
	})
}
