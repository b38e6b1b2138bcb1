package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/convert/llm"
)

// useModel readies the model that --llm names. The provider is asked once whether it takes the key.
func (r *run) useModel(ctx context.Context, in *pipeline.Invocation) error {
	f := in.Flags
	if f.Text("llm") == "" {
		if f.Text("llm-prompt") != "" || f.Bool("llm-meta") {
			return usage("add --llm PROVIDER/MODEL", "--llm-prompt and --llm-meta need a model")
		}
		return nil
	}
	id, model, ok := strings.Cut(f.Text("llm"), "/")
	if !ok || id == "" || model == "" {
		return usage("write --llm PROVIDER/MODEL", "--llm %q names no provider and model", f.Text("llm"))
	}
	section, err := in.Top("llm")
	if err != nil {
		return err
	}
	providers := section.Sections("providers")
	p, ok := providers[id]
	if !ok {
		return usage("add it to pawl.yaml under llm.providers; there are: "+
			strings.Join(slices.Sorted(maps.Keys(providers)), ", "),
			"no provider is called %q", id)
	}
	prices := map[string]llm.Price{}
	for name, m := range p.Sections("models") {
		prices[name] = llm.Price{Input: m.Number("input_cost"), Output: m.Number("output_cost")}
	}
	if _, priced := prices[model]; !priced && section.Has("budget") {
		return usage("add it to pawl.yaml under llm.providers."+id+".models",
			"there is a budget, but no price of the model %q", model)
	}
	if !f.Changed("max-concurrency") {
		r.most = int(p.Int("max_concurrency"))
	}
	prompt := defaultPrompt
	if name := f.Text("llm-prompt"); name != "" {
		text, err := os.ReadFile(name)
		if err != nil {
			return &pipeline.Error{Code: pipeline.ExitUsage, What: "cannot read the prompt", Err: err,
				Next: "check --llm-prompt"}
		}
		prompt = string(text)
	}
	if f.Bool("llm-meta") {
		prompt += metaPrompt
	}
	r.model = &improver{
		provider: llm.New(llm.Config{
			ID: id, Type: p.Text("type"), BaseURL: p.Text("base_url"), Key: p.Text("key"),
			Timeout:        p.Duration("timeout"),
			MaxAnswerBytes: p.Int("max_answer_bytes"), MaxConcurrency: r.most, Models: prices, Logger: r.log,
		}),
		model: model, prompt: prompt, useCache: !f.Bool("no-cache"), scope: r.scope + "/spent", marks: r.marks,
		budget: -1, stats: &r.stats, maxAway: time.Minute,
	}
	if section.Has("budget") {
		r.model.budget = int64(section.Number("budget") * 1e9)
	}
	sum := sha256.Sum256([]byte(prompt))
	r.options += fmt.Sprintf(" llm=%s/%s prompt=%s", id, model, hex.EncodeToString(sum[:8]))
	if err := r.model.recall(ctx); err != nil {
		return err
	}
	if err := r.model.provider.Validate(ctx); err != nil {
		code := pipeline.ExitFailure
		if k := pawl.Describe(err).Kind; k == llm.KindAuth || k == llm.KindQuota {
			code = pipeline.ExitUnfinished
		}
		return &pipeline.Error{Code: code, What: "cannot use provider " + id, Err: err,
			Next: "check its base_url and key in pawl.yaml, under llm.providers." + id}
	}
	return nil
}
