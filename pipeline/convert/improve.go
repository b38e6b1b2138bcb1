package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	tracing "github.com/pawl-dev/pawl/observe/trace"
	"github.com/pawl-dev/pawl/pipeline/convert/llm"
	"github.com/pawl-dev/pawl/store"
)

// defaultPrompt is the instruction to a model for a document.
const defaultPrompt = `You improve Markdown that a program made from a document.
Mend headings, lists, tables and paragraphs that were broken apart. Keep every fact, number, name and link; add nothing.
Answer with the Markdown alone.`

// metaPrompt asks for front matter.
const metaPrompt = `
Begin with YAML front matter between lines of ---: title, summary (one sentence) and tags (a list of at most five).`

// improver sends Markdown to a model, and keeps what it answers.
type improver struct {
	provider *llm.Provider
	model    string
	prompt   string
	useCache bool
	scope    string // of what this run has spent
	marks    store.Shared
	budget   int64 // nano-dollars; below 0: none
	spent    atomic.Int64
	stats    *stats
	maxAway  time.Duration // for how long a provider may be away
	away     atomic.Int64  // since when it is, in Unix nanoseconds; 0: it is not
}

// answers is the scope of what models have answered, for all runs over a store.
const answers = "convert/answers"

// kept is an answer in the store.
type kept struct {
	Text   string `json:"text"`
	Input  int64  `json:"input_tokens"`
	Output int64  `json:"output_tokens"`
}

var (
	errBudget = errors.New("the budget is used up")
	errAway   = errors.New("the provider cannot be reached")
)

// improve returns the model's version of the text of a file: a stored answer, or a new one, which is stored before
// it is returned.
func (m *improver) improve(ctx context.Context, file, text string) (string, error) {
	sum := sha256.New()
	for _, part := range []string{m.provider.ID, m.model, m.prompt, text} {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	key := hex.EncodeToString(sum.Sum(nil))
	if m.useCache {
		found, err := m.marks.GetMarks(ctx, answers, key)
		if err != nil {
			return "", err
		}
		if mark, ok := found[key]; ok {
			var k kept
			if err := json.Unmarshal(mark.Value, &k); err == nil {
				return k.Text, nil
			}
		}
	}
	if m.budget >= 0 && m.spent.Load() >= m.budget {
		return "", errBudget
	}
	m.stats.requests.Add(1)
	ctx, step := tracing.Start(ctx, "llm", slog.String("provider", m.provider.ID), slog.String("model", m.model))
	a, err := m.provider.Complete(ctx, file, m.model, m.prompt, text)
	step.End(err)
	if err := m.count(err); err != nil {
		return "", err
	}
	marks := m.pay(a)
	if err == nil {
		a.Text = unfenced(a.Text)
		value, err := json.Marshal(kept{a.Text, a.Usage.Input, a.Usage.Output})
		if err != nil {
			return "", err
		}
		if len(value) <= pawl.MaxMark {
			marks = append(marks, pawl.Mark{Scope: answers, Key: key, Value: value, If: pawl.AnyVersion})
		}
	}
	if len(marks) > 0 {
		if err := put(m.marks, marks...); err != nil {
			return "", fmt.Errorf("store the answer: %w", err)
		}
	}
	return a.Text, err
}

// count takes note of how a request ended. It returns an error when the provider has been away for too long.
func (m *improver) count(err error) error {
	switch pawl.Describe(err).Kind {
	case llm.KindAway:
		m.away.CompareAndSwap(0, time.Now().UnixNano())
		if since := m.away.Load(); since > 0 && time.Since(time.Unix(0, since)) > m.maxAway {
			return fmt.Errorf("%w: %w", errAway, err)
		}
		return nil
	case llm.KindRateLimit:
		m.stats.rateLimited.Add(1)
	case llm.KindServer:
		m.stats.serverErrors.Add(1)
	}
	m.away.Store(0)
	return nil
}

// pay accounts for an answer, also one that failed.
func (m *improver) pay(a llm.Answer) []pawl.Mark {
	if a.Usage == (llm.Usage{}) {
		return nil
	}
	m.stats.input.Add(a.Usage.Input)
	m.stats.output.Add(a.Usage.Output)
	m.stats.cost.Add(a.Cost)
	m.spent.Add(a.Cost)
	value, _ := json.Marshal(a.Cost)
	return []pawl.Mark{{Scope: m.scope, Key: pawl.NewID(), Value: value}}
}

// recall adds up what the run has spent before.
func (m *improver) recall(ctx context.Context) error {
	for mark, err := range m.marks.ListMarks(ctx, m.scope, "") {
		if err != nil {
			return err
		}
		var cost int64
		if err := json.Unmarshal(mark.Value, &cost); err != nil {
			return err
		}
		m.spent.Add(cost)
	}
	return nil
}

// unfenced removes the code fence that many models put around their answer.
func unfenced(text string) string {
	trimmed := strings.TrimSpace(text)
	for _, open := range []string{"```markdown\n", "```md\n", "```\n"} {
		if rest, ok := strings.CutPrefix(trimmed, open); ok && strings.HasSuffix(rest, "\n```") &&
			strings.Count(rest, "\n```")%2 == 1 {
			trimmed = strings.TrimSuffix(rest, "\n```")
			break
		}
	}
	return trimmed + "\n"
}
