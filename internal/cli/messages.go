package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/cli/flag"
	"github.com/pawl-dev/pawl/internal/commands"
	"github.com/pawl-dev/pawl/internal/migrate"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) messages() *cobra.Command {
	return noun("messages", "Messages: list, show, run now", `Shows messages, and brings delayed ones forward.`,
		s.messagesLs(), s.messagesShow(), s.messagesRun())
}

// messageFilter is the flags that select messages.
type messageFilter struct {
	topic, state, key string
	olderThan         flag.Duration
	limit             int
	group             string // key, or header:NAME
	search            operate.Search
}

func (s *session) messagesLs() *cobra.Command {
	var f messageFilter
	c := &cobra.Command{
		Use: "ls", Short: "List messages", Args: count(0, 0, "flags only"),
		Long: `Lists messages that are waiting, delayed or leased, by topic and rank. The first one
is not always processed next: within a key, the message that was appended first comes
first, even if another one has a better rank; see ` + "`pawl peek`" + `. With --state dead it lists
dead letters, the oldest first; ` + "`pawl dead ls`" + ` shows more of them. With --state acked it
lists acked messages of topics that retain them (` + "`pawl topics set TOPIC --retain D`" + `).

A table shows the first 100; -o json and -o jsonl have all, unless --limit says
otherwise. With --group-by it counts all of them instead.`,
		Example: `  pawl messages ls
  pawl messages ls --topic mail --group-by key
  pawl messages ls --topic mail --state delayed
  pawl messages ls --topic mail --key customer-7 -o jsonl
  pawl messages ls --older-than 1h --limit 10`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if s.output == formatTable && !c.Flags().Changed("limit") && f.group == "" {
				f.limit = tableRows
			}
			return s.listMessages(c.Context(), &f)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.topic, "topic", "", "only this topic")
	fl.StringVar(&f.state, "state", "", "only what is waiting, delayed, leased, dead or acked")
	fl.StringVar(&f.key, "key", "", "only this key")
	fl.Var(&f.olderThan, "older-than", "only what was appended longer ago")
	fl.StringVar(&f.search.Text, "search", "", "of the first 10,000 only those with this in the id, key, a header or body")
	fl.StringVar(&f.search.Header, "header", "", "of the first 10,000 only those with this header, `NAME` or NAME=VALUE")
	fl.StringVar(&f.search.UniqueKey, "unique-key", "", "of the first 10,000 only those with this unique key")
	fl.IntVar(&f.limit, "limit", 0, "at most this many (0: all)")
	fl.StringVar(&f.group, "group-by", "", "count by key, or by header:NAME, the most frequent first")
	return c
}

// tableRows is how many rows a table has unless more are asked for.
const tableRows = 100

var states = []string{string(store.Waiting), string(store.Delayed), string(store.Leased), string(store.IsDead),
	string(store.Acked)}

func (f *messageFilter) check() error {
	if f.state != "" && !slices.Contains(states, f.state) {
		return usage("use one of these", "--state is %q; it is %s", f.state, strings.Join(states, ", "))
	}
	name, header := strings.CutPrefix(f.group, "header:")
	if f.group != "" && f.group != "key" && (!header || name == "") {
		return usage("use key, or header:NAME", "--group-by is %q", f.group)
	}
	return checkLimit(f.limit)
}

// listMessages prints what a filter selects.
func (s *session) listMessages(ctx context.Context, f *messageFilter) error {
	opened, err := s.open(ctx)
	if err != nil {
		return err
	}
	var records iter.Seq2[store.Record, error]
	limit := f.limit
	if f.search != (operate.Search{}) {
		f.limit = 0 // it counts what is found
	}
	if f.state == string(store.IsDead) {
		d, err := partOf[store.DeadLetters](opened, "list dead letters")
		if err != nil {
			return err
		}
		filter := store.DeadFilter{Topic: f.topic, Key: keyOf(f.key), Limit: f.limit}
		if records = d.Dead(ctx, filter); f.olderThan > 0 {
			filter.Limit = 0
			records = operate.OlderThan(d.Dead(ctx, filter), time.Duration(f.olderThan), f.limit)
		}
	} else {
		i, err := partOf[store.Inspector](opened, "list messages")
		if err != nil {
			return err
		}
		records = i.List(ctx, store.Filter{
			Topic: f.topic, State: store.State(f.state), Key: keyOf(f.key), OlderThan: time.Duration(f.olderThan),
			Limit: f.limit,
		})
	}
	records = operate.OlderThan(f.search.In(records, func() {
		s.note("looked at the first %d messages; there are more: narrow it with --topic or --key", operate.MostSearched)
	}), 0, limit)
	if f.group != "" {
		return s.groupMessages(records, f.group)
	}
	empty := "no such messages"
	if f.state == string(store.Acked) {
		empty = "no such messages: a topic keeps acked ones after `pawl topics set TOPIC --retain 24h`"
	}
	return s.printMessages(records, empty)
}

// messageGroup is how many messages have a key, or a value of a header, as JSON.
type messageGroup struct {
	Value    string    `json:"value"`
	Count    int64     `json:"count"`
	OldestID string    `json:"oldest_id"`
	OldestAt time.Time `json:"oldest_at"`
}

// groupMessages counts messages by key or header.
func (s *session) groupMessages(records iter.Seq2[store.Record, error], by string) error {
	groups := map[string]*messageGroup{}
	header, isHeader := strings.CutPrefix(by, "header:")
	for r, err := range records {
		if err != nil {
			return cannot(err, "list messages")
		}
		m := operate.FormMessage(&r)
		value := keyCell(&m)
		if isHeader {
			value = r.Headers[header]
		}
		g := groups[value]
		if g == nil {
			g = &messageGroup{Value: value, OldestID: r.ID, OldestAt: r.EnqueuedAt.UTC()}
			groups[value] = g
		}
		if g.Count++; r.EnqueuedAt.Before(g.OldestAt) {
			g.OldestID, g.OldestAt = r.ID, r.EnqueuedAt.UTC()
		}
	}
	l := s.list(strings.ToUpper(strings.TrimPrefix(by, "header:")), ">COUNT", "OLDEST", "FIRST ID")
	for _, g := range slices.SortedFunc(maps.Values(groups), func(a, b *messageGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value))
	}) {
		l.add(g, s.cell(g.Value, 40), number(g.Count), s.at(g.OldestAt), g.OldestID)
	}
	return l.end("no such messages")
}

// printMessages prints records as they come.
func (s *session) printMessages(records func(func(store.Record, error) bool), empty string) error {
	l := s.list("ID", "TOPIC", "KEY", "STATE", ">PRIO", ">TRIES", "ENQUEUED", "NOT BEFORE", "LEASED BY", "BODY")
	for r, err := range records {
		if err != nil {
			return cannot(err, "list messages")
		}
		m := operate.FormMessage(&r)
		owner := ""
		if m.Lease != nil {
			owner = m.Lease.Owner
		}
		if !l.add(m, m.ID, m.Topic, s.cell(keyCell(&m), 24), string(m.State), number(m.Priority), number(m.Attempt),
			s.at(m.EnqueuedAt), s.atp(m.NotBefore), s.cell(owner, 24), bodyCell(&m, s.most(40))) {
			break
		}
	}
	if s.output == formatTable && l.n == tableRows {
		s.note("these are the first %d; --limit 0 lists all", tableRows)
	}
	return l.end("%s", empty)
}

func (s *session) messagesShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show everything about a message", Args: count(1, 1, "one id"),
		Long: `Shows a message in any state, with its body, the reason of its state, and the attempts so
far. An acked message is gone, unless its topic retains it.`,
		Example: `  id=$(pawl send mail "hello"); pawl messages show $id
  pawl messages show $(pawl send mail "hello") -o json`,
		RunE: s.withID("show a message", func(ctx context.Context, i store.Inspector, id string) error {
			r, err := i.Get(ctx, id)
			if err != nil {
				return cannot(err, "show message %s", id)
			}
			if r.State == store.IsDead {
				d := operate.FormDeadLetter(&r)
				return s.one(d, func(w io.Writer) { describeDead(w, &d) })
			}
			d := operate.FormDetail(&r)
			return s.one(d, func(w io.Writer) { describeMessage(w, &d) })
		}),
	}
}

// describeMessage tells about a live or retained message.
func describeMessage(w io.Writer, d *operate.Detail) {
	describe(w, &d.Message)
	field(w, "reason", d.Reason)
	field(w, "acked at", whenever(d.AckedAt))
	describePast(w, d.Attempts, d.Replays)
	describeBody(w, &d.Message)
}

// describeDead tells about a dead letter.
func describeDead(w io.Writer, d *operate.DeadLetter) {
	describe(w, &d.Message)
	if o := d.Origin; o != nil {
		field(w, "origin", fmt.Sprintf("%s/%d/%d at %s, read by %s of group %s", o.Topic, o.Partition, o.Offset,
			when(o.Timestamp), oneLine(o.Client), oneLine(o.Group)))
	}
	field(w, "dead at", when(d.DeadAt))
	field(w, "kind", d.Kind)
	field(w, "fingerprint", d.Fingerprint)
	field(w, "reason", d.Reason)
	if by := d.Resolved; by != nil {
		field(w, "resolved", "at "+when(by.At)+" by "+by.By+operate.Because(by.Note))
	}
	if rule := operate.StoreRule(pawl.Kind(d.Kind)); rule != "" {
		field(w, "rule", rule+", the store")
	}
	describePast(w, d.Attempts, d.Replays)
	describeBody(w, &d.Message)
}

func describe(w io.Writer, m *operate.Message) {
	field(w, "id", m.ID)
	field(w, "topic", m.Topic)
	field(w, "key", keyCell(m))
	field(w, "state", string(m.State))
	field(w, "priority", number(m.Priority))
	field(w, "enqueued at", when(m.EnqueuedAt))
	field(w, "not before", whenever(m.NotBefore))
	if m.Throttles > 0 {
		field(w, "throttles", number(m.Throttles)+", since "+whenever(m.ThrottledSince))
	}
	if m.UniqueKey != nil {
		field(w, "unique key", *m.UniqueKey)
	}
	if l := m.Lease; l != nil {
		field(w, "leased by", l.Owner)
		field(w, "leased until", when(l.Until)+", never past "+when(l.Deadline))
		field(w, "token", l.Token)
	}
	for name, value := range m.Headers {
		field(w, "header", name+"="+value)
	}
}

func describePast(w io.Writer, attempts []operate.Attempt, replays int) {
	if replays > 0 {
		field(w, "replays", number(replays))
	}
	for _, a := range attempts {
		text := fmt.Sprintf("%s %s by %s: %s", when(a.EndedAt), a.Kind, a.Worker, a.Error)
		name := fmt.Sprintf("attempt %d", a.Attempt)
		if a.Throttled {
			name = "throttled"
		}
		field(w, name, text)
		field(w, "  decided", strings.TrimPrefix(a.Rule+": "+a.Action, ": "))
		field(w, "  from", a.Inputs)
		for _, name := range slices.Sorted(maps.Keys(a.Attrs)) {
			field(w, "  "+name, a.Attrs[name])
		}
	}
}

// describeBody ends with the body as it is, but for what a terminal would obey.
func describeBody(w io.Writer, m *operate.Message) {
	if m.Body == nil {
		field(w, "body (base64)", *m.BodyBase64)
		return
	}
	if *m.Body != "" {
		fmt.Fprintf(w, "\n%s\n", clean(strings.TrimSuffix(*m.Body, "\n")))
	}
}

// field prints a line, if there is something to tell; further lines of a value
// are indented.
func field(w io.Writer, name, value string) {
	if value != "" {
		value = strings.ReplaceAll(clean(value), "\n", "\n"+strings.Repeat(" ", 14))
		fmt.Fprintf(w, "%-13s %s\n", clean(name), value)
	}
}

func (s *session) peek() *cobra.Command {
	n := 10
	c := &cobra.Command{
		Use: "peek TOPIC", Short: "Look at what comes next, without taking it", Args: count(1, 1, "one topic"),
		Long: `Shows the messages of a topic that are processed next: first those that a worker may
take now, then those that wait behind another one of their key, both by rank. It takes
none of them, and looks at the first 1,000 messages of the topic.

A store that does not know what other processes hold (Kafka) shows those messages,
too.`,
		Example: `  pawl peek mail
  pawl peek mail --limit 1 -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			if n < 1 {
				return usage("use a number from 1", "--limit is %d", n)
			}
			opened, err := s.open(c.Context())
			if err != nil {
				return err
			}
			topic := store.Topic{Name: args[0]}
			if topics, ok := store.As[store.Topics](opened); ok {
				if topic, err = topics.Topic(c.Context(), args[0]); err != nil {
					return cannot(err, "peek into topic %s", args[0])
				}
			}
			i, err := partOf[store.Inspector](opened, "peek")
			if err != nil {
				return err
			}
			return s.printMessages(operate.Upcoming(c.Context(), i, topic, n), "nothing is waiting in topic "+args[0])
		},
	}
	c.Flags().IntVar(&n, "limit", n, "show this many")
	return c
}

func (s *session) explain() *cobra.Command {
	schedule, tick := "", ""
	c := &cobra.Command{
		Use: "explain [ID]", Short: "Say why a message is where it is, and what happens next",
		Args: count(0, 1, "one id"),
		Long: `Explains the state of a message: which worker has it, or why it waits, why it failed,
which rule decided about the failure, and what happens next.

The situation is one of ready, behind, held, paused, limited, delayed, retrying,
suspect, leased, dead, replayed and retained. For a paused topic, it also names the
next obstacle after the pause. An acked message is unknown, unless its topic retains
acked messages. So is a message that was cancelled or discarded; the audit tells who did
that, if it was by id. The exit code for an unknown message is 6.

It says that no worker is known to serve a topic if none has reported for 20 seconds
and none holds a message of it. A program may have switched its reports off.

With --schedule it says of a tick of a schedule why it fired, fired late, was made up,
skipped or missed.`,
		Example: `  pawl explain $(pawl send mail "hello")
  pawl explain $(pawl send mail "hello") -o json`,
		RunE: with(s, "explain a message", func(c *cobra.Command, args []string, i store.Inspector) error {
			if (schedule == "") == (len(args) == 0) || tick != "" && schedule == "" {
				return usage("such as `pawl explain ID`, or `pawl explain --schedule NAME --tick TIME`",
					"it takes the id of a message, or --schedule")
			}
			if schedule != "" {
				x, text, err := commands.Explain(c.Context(), s.opened, schedule, tick)
				if err != nil {
					return cannot(fromPipeline(err), "explain schedule %s", schedule)
				}
				return s.one(x, func(w io.Writer) { _, _ = io.WriteString(w, text) })
			}
			t, err := partOf[store.Topics](s.opened, "explain a message")
			if err != nil {
				return err
			}
			ids, err := s.ids(c.Context(), args[0])
			if err != nil {
				return err
			}
			ctx, id := c.Context(), ids[0]
			x, err := operate.Explain(ctx, s.opened, i, t, id)
			if errors.Is(err, store.ErrNotFound) {
				return s.notKnown(operate.NotKnown(ctx, s.opened, id, migrate.MayBeAway))
			}
			if err != nil {
				return cannot(err, "explain message %s", id)
			}
			if err := s.findTrace(&x.Trace, id); err != nil {
				return err
			}
			x.Next.Action = s.here(x.Next.Action)
			return s.one(x, func(w io.Writer) { describeWhy(w, x) })
		}),
	}
	c.Flags().StringVar(&schedule, "schedule", "", "`NAME` of a schedule, in place of a message")
	c.Flags().StringVar(&tick, "tick", "", "`TIME` of a tick of it (default: the last one)")
	return c
}

// notKnown says what is known of an id that is not there.
func (s *session) notKnown(x *operate.Explanation) error {
	if s.output != formatTable {
		if err := s.one(x, nil); err != nil {
			return err
		}
	}
	return &problem{
		code: exitNotFound, what: fmt.Sprintf("message %s is unknown", x.ID), err: errors.New(x.Why),
		next: strings.TrimPrefix(x.Next.Action, "nothing; "),
	}
}

func describeWhy(w io.Writer, x *operate.Explanation) {
	field(w, "id", x.ID)
	field(w, "topic", *x.Topic)
	if x.Key != nil {
		field(w, "key", *x.Key)
	}
	field(w, "state", string(x.State))
	field(w, "situation", x.Situation)
	field(w, "why", x.Why)
	field(w, "since", whenever(x.Since))
	field(w, "blocked by", x.BlockedBy)
	if x.Next.At != nil {
		field(w, "next", when(*x.Next.At)+": "+x.Next.Action)
	} else {
		field(w, "next", x.Next.Action)
	}
	describeTrace(w, &x.Trace)
	describePast(w, x.History, 0)
}
