package cli

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// messageFilter is the flags that select messages.
type messageFilter struct {
	topic, state, key string
	olderThan         duration
	limit             int
}

func (s *session) messagesLs() *cobra.Command {
	var f messageFilter
	c := &cobra.Command{
		Use: "ls", Short: "List messages", Args: count(0, 0, "flags only"),
		Long: `Lists messages that are waiting, delayed or leased, by topic and rank. The first one
is not always processed next: within a key, what was appended first comes first,
whatever the ranks; see ` + "`pawl peek`" + `. With --state dead it lists dead letters, the
oldest first; ` + "`pawl dead ls`" + ` says more about those.

A table shows the first 100; -o json and -o jsonl have all, unless --limit says
otherwise.`,
		Example: `  pawl messages ls
  pawl messages ls --topic mail --state delayed
  pawl messages ls --topic mail --key customer-7 -o jsonl
  pawl messages ls --older-than 1h --limit 10`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if s.output == formatTable && !c.Flags().Changed("limit") {
				f.limit = tableRows
			}
			return s.listMessages(c.Context(), &f)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.topic, "topic", "", "only this topic")
	fl.StringVar(&f.state, "state", "", "only what is waiting, delayed, leased or dead")
	fl.StringVar(&f.key, "key", "", "only this key")
	fl.Var(&f.olderThan, "older-than", "only what was appended longer ago")
	fl.IntVar(&f.limit, "limit", 0, "at most this many (0: all)")
	return c
}

// tableRows is how many rows a table has unless more are asked for.
const tableRows = 100

var states = []string{string(store.Waiting), string(store.Delayed), string(store.Leased), string(store.IsDead)}

func (f *messageFilter) check() error {
	if f.state != "" && !slices.Contains(states, f.state) {
		return usage("use one of these", "--state is %q; it is %s", f.state, strings.Join(states, ", "))
	}
	if f.limit < 0 {
		return usage("use 0 for no limit", "--limit is %d", f.limit)
	}
	return nil
}

// listMessages prints what a filter selects.
func (s *session) listMessages(ctx context.Context, f *messageFilter) error {
	opened, err := s.open(ctx)
	if err != nil {
		return err
	}
	var key []byte
	if f.key != "" {
		key = []byte(f.key)
	}
	var records iter.Seq2[store.Record, error]
	if f.state == string(store.IsDead) {
		d, err := partOf[store.DeadLetters](opened, "list dead letters")
		if err != nil {
			return err
		}
		filter := store.DeadFilter{Topic: f.topic, Key: key, Limit: f.limit}
		if f.olderThan > 0 {
			records = olderThan(d.Dead(ctx, store.DeadFilter{Topic: f.topic, Key: key}),
				time.Duration(f.olderThan), f.limit)
		} else {
			records = d.Dead(ctx, filter)
		}
	} else {
		i, err := partOf[store.Looker](opened, "list messages")
		if err != nil {
			return err
		}
		records = i.List(ctx, store.Filter{
			Topic: f.topic, State: store.State(f.state), Key: key, OlderThan: time.Duration(f.olderThan),
			Limit: f.limit,
		})
	}
	return s.printMessages(records, "no such messages")
}

// olderThan passes on records that were appended longer ago.
func olderThan(records func(func(store.Record, error) bool), d time.Duration,
	limit int) func(func(store.Record, error) bool) {
	return func(yield func(store.Record, error) bool) {
		n := 0
		for r, err := range records {
			if err == nil && time.Since(r.EnqueuedAt) <= d {
				continue
			}
			if n++; !yield(r, err) || n == limit {
				return
			}
		}
	}
}

// printMessages prints records as they come.
func (s *session) printMessages(records func(func(store.Record, error) bool), empty string) error {
	l := s.list("ID", "TOPIC", "KEY", "STATE", ">PRIORITY", ">ATTEMPT", "ENQUEUED", "NOT BEFORE", "LEASED BY", "BODY")
	for r, err := range records {
		if err != nil {
			return cannot(err, "list messages")
		}
		m := operate.FormMessage(&r)
		owner := ""
		if m.Lease != nil {
			owner = m.Lease.Owner
		}
		if !l.add(m, m.ID, m.Topic, cut(keyCell(&m), 24), string(m.State), number(m.Priority), number(m.Attempt),
			when(m.EnqueuedAt), whenever(m.NotBefore), cut(owner, 24), bodyCell(&m, 40)) {
			break
		}
	}
	if s.output == formatTable && l.n == tableRows {
		s.note("these are the first %d; --limit 0 lists all", tableRows)
	}
	return l.end("%s", empty)
}
