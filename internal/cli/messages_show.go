package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) messagesShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show everything about a message", Args: count(1, 1, "one id"),
		Long: `Shows a message in whatever state it is, with its body, why it is where it is, and the
attempts so far. An acked message is gone, unless its topic retains.`,
		Example: `  id=$(pawl send mail "hello"); pawl messages show $id
  pawl messages show $(pawl send mail "hello") -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			i, err := part[store.Looker](c.Context(), s, "show a message")
			if err != nil {
				return err
			}
			r, err := i.Get(c.Context(), args[0])
			if err != nil {
				return cannot(err, "show message %s", args[0])
			}
			if r.State == store.IsDead {
				d := operate.FormDeadLetter(&r)
				return s.one(d, func(w io.Writer) { describeDead(w, &d) })
			}
			d := operate.FormDetail(&r)
			return s.one(d, func(w io.Writer) { describeMessage(w, &d) })
		},
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
	if r, ok := storeRules[pawl.Kind(d.Kind)]; ok {
		field(w, "rule", r.name+", the store")
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
		fmt.Fprintf(w, "%-13s %s\n", name, value)
	}
}
