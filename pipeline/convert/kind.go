package convert

import (
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/convert/llm"
	"github.com/pawl-dev/pawl/pipeline/convert/tool"
)

// Kind is the pipeline as the host knows it: it has commands only.
func Kind() pipeline.Kind {
	return pipeline.Kind{
		Name: "convert", Summary: "documents to Markdown", Top: []pipeline.Field{llmField()}, Rules: Rules(),
		Missing:  func() map[string]string { return tool.Find().Missing() },
		Commands: []pipeline.Command{command(), chaosCommand()},
	}
}

// llmField is the section llm of the configuration.
func llmField() pipeline.Field {
	model := &pipeline.Field{Type: pipeline.Object, Fields: []pipeline.Field{
		{Name: "input_cost", Type: pipeline.Number, Default: "0",
			Doc: "What a million tokens of a request cost, in dollars."},
		{Name: "output_cost", Type: pipeline.Number, Default: "0",
			Doc: "What a million tokens of an answer cost, in dollars."},
	}}
	provider := &pipeline.Field{Type: pipeline.Object, Fields: []pipeline.Field{
		{Name: "type", Type: pipeline.Choice, Choices: []string{llm.OpenAI, llm.Anthropic}, Default: llm.OpenAI,
			Doc: "The format that the provider speaks."},
		{Name: "base_url", Type: pipeline.URL, Required: true, Check: pipeline.CheckBase,
			Doc: "Where it is; for openai with /v1, for anthropic without."},
		{Name: "key", Type: pipeline.Text, Secret: true, Doc: "The key of its API."},
		{Name: "max_concurrency", Type: pipeline.Int, Default: "64", Min: 1, Max: 10_000,
			Doc: "How many requests may be in flight."},
		{Name: "timeout", Type: pipeline.Duration, Default: "120s", Doc: "How long an answer may take."},
		{Name: "max_answer_bytes", Type: pipeline.Size, Default: "4MiB", Min: 1 << 10, Max: 1 << 30,
			Doc: "The largest answer."},
		{Name: "models", Type: pipeline.Table, Of: model, Doc: "What its models cost, by name."},
	}}
	return pipeline.Field{Name: "llm", Type: pipeline.Object, Doc: "Language models, for `pawl convert --llm`.",
		Fields: []pipeline.Field{
			{Name: "providers", Type: pipeline.Table, Of: provider, Doc: "Providers by their id."},
			{Name: "budget", Type: pipeline.Number, DefaultDoc: "no bound",
				Doc: "The most that a run may cost, in dollars, over all of its resumes."},
		}}
}
