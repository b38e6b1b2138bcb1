package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/cli/flag"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// liveFilter is the flags that select messages that are not dead, for what changes many
// of them.
type liveFilter struct {
	topic, key string
	attrs      flag.Facts
	olderThan  flag.Duration
	limit      int
	all        bool
}

// add defines the flags; older is what --older-than is about.
func (f *liveFilter) add(fl *pflag.FlagSet, older string) {
	fl.StringVar(&f.topic, "topic", "", "only this topic")
	fl.StringVar(&f.key, "key", "", "only this key")
	fl.Var(&f.attrs, "attr", "only those whose last failure stated this fact: `NAME=VALUE`; may be repeated")
	fl.Var(&f.olderThan, "older-than", older)
	fl.IntVar(&f.limit, "limit", 0, "at most this many (0: all)")
	fl.BoolVar(&f.all, "all", false, "all of the store")
}

// check refuses flags that make no sense together; more reports whether flags of the
// command select, too.
func (f *liveFilter) check(c *cobra.Command, ids []string, more bool) error {
	if err := checkLimit(f.limit); err != nil {
		return err
	}
	return checkSelection(c, ids, more || f.topic+f.key != "" || len(f.attrs) > 0 || f.olderThan > 0, f.all, f.limit)
}

func checkLimit(limit int) error {
	if limit < 0 {
		return usage("use 0 for no limit", "--limit is %d", limit)
	}
	return nil
}

// checkSelection wants ids, or flags that select, or --all.
func checkSelection(c *cobra.Command, ids []string, selects, all bool, limit int) error {
	next := fmt.Sprintf("give ids, or flags such as --topic, or --all; `%s --help` has examples", c.CommandPath())
	switch {
	case len(ids) > 0 && (selects || all || limit > 0):
		return usage(next, "ids and flags that select cannot be combined")
	case len(ids) == 0 && !selects && !all:
		return usage(next, "nothing is selected")
	}
	return nil
}

// form is what the flags say, for the audit.
func (f *liveFilter) form() operate.Filter {
	return operate.Filter{Topic: f.topic, Key: f.key, Attrs: f.attrs, Limit: f.limit,
		OlderThanSeconds: time.Duration(f.olderThan).Seconds()}
}

// find collects what List yields for a filter and keep agrees to, without bodies and
// the like.
func (f *liveFilter) find(ctx context.Context, l store.Inspector, of store.Filter,
	keep func(*store.Record) bool) (found []store.Record, err error) {
	of.Topic, of.Key = f.topic, keyOf(f.key)
	stated := store.DeadFilter{Attrs: f.attrs}
	for r, err := range l.List(ctx, of) {
		if err != nil {
			return nil, cannot(err, "list messages")
		}
		if !stated.MatchesText(&r) || !keep(&r) {
			continue
		}
		r.Body, r.Headers, r.History = nil, nil, nil
		if found = append(found, r); len(found) == f.limit {
			break
		}
	}
	return found, nil
}

// inState looks at messages by id, and says of those that are not in one of these states why not.
func (s *session) inState(ctx context.Context, l store.Inspector, ids []string,
	states ...store.State) (found []store.Record, refused map[string]error, err error) {
	refused = map[string]error{}
	for _, id := range ids {
		r, err := l.Get(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			refused[id] = err
		case err != nil:
			return nil, nil, cannot(err, "look at message %s", id)
		case !slices.Contains(states, r.State):
			refused[id] = &store.Error{Op: "message " + id, Code: store.ErrConflict,
				Err: fmt.Errorf("it is %s", r.State)}
		default:
			found = append(found, r)
		}
	}
	s.ifMissing(ctx, refused)
	return found, refused, nil
}

// ids completes ids that are given by their beginnings.
func (s *session) ids(ctx context.Context, given ...string) ([]string, error) {
	whole, err := operate.Complete(ctx, s.opened, given)
	if several, ok := errors.AsType[*operate.AmbiguousError](err); ok {
		return nil, usage("give more of it", "%w", several)
	}
	return whole, cannot(err, "look for ids")
}

// withID is what a command about one message runs.
func (s *session) withID(what string,
	run func(ctx context.Context, l store.Inspector, id string) error) func(*cobra.Command, []string) error {
	return with(s, what, func(c *cobra.Command, args []string, l store.Inspector) error {
		ids, err := s.ids(c.Context(), args[0])
		if err != nil {
			return err
		}
		return run(c.Context(), l, ids[0])
	})
}

// livePlan says what a command is about to change, as JSON.
type livePlan struct {
	Count  int64                `json:"count"`
	Topics []operate.TopicCount `json:"topics"`
	Oldest *oldestLive          `json:"oldest"`
}

type oldestLive struct {
	ID         string    `json:"id"`
	Topic      string    `json:"topic"`
	EnqueuedAt time.Time `json:"enqueued_at"`
}

func planLive(found []store.Record) *livePlan {
	p := &livePlan{Count: int64(len(found)), Topics: []operate.TopicCount{}}
	for i := range found {
		r := &found[i]
		if p.Oldest == nil || r.EnqueuedAt.Before(p.Oldest.EnqueuedAt) {
			p.Oldest = &oldestLive{r.ID, r.Topic, r.EnqueuedAt.UTC()}
		}
		at := slices.IndexFunc(p.Topics, func(t operate.TopicCount) bool { return t.Topic == r.Topic })
		if at < 0 { // they come by topic
			at = len(p.Topics)
			p.Topics = append(p.Topics, operate.TopicCount{Topic: r.Topic})
		}
		p.Topics[at].Count++
	}
	return p
}

// agreed asks whether to carry a plan out. In a dry run it prints the plan instead, and nothing is agreed.
func (s *session) agreed(verb, from string, p *livePlan, ask bool) (bool, error) {
	if ask && !s.dryRun && p.Count > 0 {
		err := s.confirm("%s %s%s; the oldest was appended at %s", verb, operate.Counted(p.Count, "message"), from,
			when(p.Oldest.EnqueuedAt))
		return err == nil, err
	}
	if !s.dryRun {
		return true, nil
	}
	return false, s.one(p, func(w io.Writer) {
		fmt.Fprintf(w, "would %s %s\n", verb, operate.Counted(p.Count, "message"))
		for _, t := range p.Topics {
			fmt.Fprintf(w, "  %d of topic %s\n", t.Count, oneLine(t.Topic))
		}
		if p.Oldest != nil {
			fmt.Fprintf(w, "the oldest was appended at %s: %s\n", when(p.Oldest.EnqueuedAt), p.Oldest.ID)
		}
	})
}

// liveChunk is how many messages are changed in one call.
const liveChunk = 500

// inChunks does something to many, a chunk at a time, and returns how many it was done
// to before it failed or the user stopped it, and what was refused.
func inChunks[T any](ctx context.Context, s *session, all []T,
	do func(context.Context, []T) (map[string]error, error)) (n int, refused map[string]error, err error) {
	refused = map[string]error{}
	p := s.progress("messages")
	defer p.End()
	for chunk := range slices.Chunk(all, liveChunk) {
		if err = context.Cause(ctx); err != nil {
			return n, refused, err
		}
		no, err := do(context.WithoutCancel(ctx), chunk) // what was begun is finished
		if err != nil {
			return n, refused, err
		}
		maps.Copy(refused, no)
		n += len(chunk)
		p.At(int64(n))
	}
	return n, refused, nil
}

// changed prints what became of messages, and writes it down.
func (s *session) changed(ctx context.Context, verb, done string, f operate.Filter, all, ids []string,
	refused map[string]error, failed error) error {
	entry := operate.AuditEntry{Action: verb, Filter: &f, Count: int64(len(all)),
		Result: operate.AuditResult{Done: int64(len(ids) - len(refused)), Refused: int64(len(refused))}}
	if len(all) == 0 {
		s.note("no such messages")
	}
	if len(refused) <= mostRefused {
		entry.Refused = sortedIDs(refused)
	}
	err := errors.Join(s.done(done, ids, refused), s.audit(ctx, entry))
	if failed != nil {
		err = errors.Join(&problem{code: exitUnfinished, err: failed,
			what: fmt.Sprintf("not everything is done: %d of %d %s", len(ids)-len(refused), len(all), done),
			next: "run it again: what is done is not done twice"}, err)
	}
	return err
}

func idsOf(found []store.Record) []string {
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	return ids
}
