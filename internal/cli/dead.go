package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/cli/flag"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) dead() *cobra.Command {
	return noun("dead", "Dead letters: list, show, replay, edit, resolve, discard, export, import",
		`A message that cannot be carried out becomes a dead letter: complete, with every
attempt and the reason. It stays until it is replayed or discarded. One that has been
dealt with in another way can be marked as resolved: it stays, but is not counted.`,
		s.deadLs(), s.deadReport(), s.deadShow(), s.deadReplay(), s.deadEdit(), s.deadResolve(), s.deadReopen(),
		s.deadDiscard(), s.deadExport(),
		s.deadImport())
}

// deadFilter is the flags that select dead letters.
type deadFilter struct {
	topic, key, kind, reason, fingerprint, search string
	since, until                                  flag.Point
	limit                                         int
	attrs                                         flag.Facts
	resolved                                      bool
}

// add defines the flags. reasonFlag is the name of the one for the reason.
func (f *deadFilter) add(fl *pflag.FlagSet, reasonFlag string) {
	f.since.Back, f.until.Back = true, true
	fl.StringVar(&f.topic, "topic", "", "only this topic")
	fl.StringVar(&f.key, "key", "", "only this key")
	fl.StringVar(&f.kind, "kind", "", "only this kind of error")
	fl.StringVar(&f.reason, reasonFlag, "", "only those whose reason contains `TEXT`, ignoring case")
	fl.StringVar(&f.fingerprint, "fingerprint", "", "only failures with this fingerprint")
	fl.StringVar(&f.search, "search", "",
		"only those that have `TEXT` anywhere, ignoring case: reason, errors, id, key, headers, body")
	fl.Var(&f.attrs, "attr", "only failures that stated this fact: `NAME=VALUE`; may be repeated")
	fl.Var(&f.since, "since", "only what died then or later; or how long ago")
	fl.Var(&f.until, "until", "only what died before; or how long ago")
	fl.BoolVar(&f.resolved, "resolved", false, "those that are resolved, instead of those that are open")
	fl.IntVar(&f.limit, "limit", 0, "at most this many (0: all)")
}

// filter is what the flags say.
func (f *deadFilter) filter() store.DeadFilter {
	return store.DeadFilter{
		Topic: f.topic, Key: keyOf(f.key), Kind: pawl.Kind(f.kind), Reason: f.reason, Fingerprint: f.fingerprint,
		Text:  f.search,
		Since: f.since.Time, Until: f.until.Time, Limit: f.limit,
		Resolved: new(f.resolved), Attrs: f.attrs,
	}
}

// check refuses what can match nothing.
func (f *deadFilter) check() error {
	if !f.since.IsZero() && !f.until.IsZero() && !f.since.Before(f.until.Time) {
		return usage("give the earlier time to --since", "--since %s is not before --until %s", f.since.Text,
			f.until.Text)
	}
	return checkLimit(f.limit)
}

// selects reports whether the flags select anything; a limit alone does not.
func (f *deadFilter) selects() bool {
	return f.topic+f.key+f.kind+f.reason+f.fingerprint+f.search+f.since.Text+f.until.Text != "" || len(f.attrs) > 0 ||
		f.resolved
}

// selection is what an operation is about: ids, or a filter, or plainly all.
func (f *deadFilter) selection(c *cobra.Command, ids []string, all bool) (operate.Selection, error) {
	err := f.check()
	if err == nil {
		err = checkSelection(c, ids, f.selects(), all, f.limit)
	}
	return operate.Selection{Filter: f.filter(), IDs: unique(ids)}, err
}

// unique drops repetitions.
func unique(ids []string) []string {
	seen := map[string]bool{}
	var kept []string
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			kept = append(kept, id)
		}
	}
	return kept
}

func (s *session) deadLs() *cobra.Command {
	var f deadFilter
	var by string
	c := &cobra.Command{
		Use: "ls", Short: "List dead letters, or count them by cause", Args: count(0, 0, "flags only"),
		Long: `Lists dead letters, the oldest death first. With --group-by it counts them instead: by
fingerprint, which is the same for failures with one cause, by kind of error, by
topic, by the hour of death, or by two of them. By fingerprint, a table also draws the
last 24 hours, and JSON counts them in by_hour. Letters that are marked as resolved are
listed with --resolved.

A table shows the first 100; -o json and -o jsonl have all, unless --limit says
otherwise.`,
		Example: `  pawl dead ls
  pawl dead ls --group-by fingerprint
  pawl dead ls --group-by fingerprint,hour --search timeout
  pawl dead ls --topic mail --reason timeout --since 2h -o jsonl
  pawl dead ls --resolved`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			names, err := groupNames(by)
			if err != nil {
				return err
			}
			d, err := part[store.DeadLetters](c.Context(), s, "list dead letters")
			if err != nil {
				return err
			}
			if by != "" {
				return s.groupDead(c.Context(), d, f.filter(), names)
			}
			if s.output == formatTable && !c.Flags().Changed("limit") {
				f.limit = tableRows
			}
			return s.listDead(c.Context(), d, f.filter())
		},
	}
	f.add(c.Flags(), "reason")
	c.Flags().StringVar(&by, "group-by", "",
		"count by fingerprint, kind, topic, hour, attr:NAME (a fact of the failure), or two of them: fingerprint,hour")
	return c
}

func (s *session) listDead(ctx context.Context, d store.DeadLetters, f store.DeadFilter) error {
	columns := []string{"ID", "TOPIC", "KEY", "DEAD AT", ">ATTEMPTS", "KIND", "FINGERPRINT", "REASON"}
	if *f.Resolved {
		columns = append(columns, "RESOLVED AT", "BY", "NOTE")
	}
	l := s.list(columns...)
	for r, err := range d.Dead(ctx, f) {
		if err != nil {
			return cannot(err, "list dead letters")
		}
		m := operate.FormDeadLetter(&r)
		cells := []string{m.ID, m.Topic, s.cell(keyCell(&m.Message), 24), s.at(m.DeadAt), number(deliveries(&m)), m.Kind,
			m.Fingerprint, s.cell(m.Reason, 80)}
		if by := m.Resolved; by != nil {
			cells = append(cells, s.at(by.At), by.By, s.cell(by.Note, 80))
		}
		if !l.add(m, cells...) {
			break
		}
	}
	if s.output == formatTable && l.n == tableRows {
		s.note("these are the first %d; --limit 0 lists all, --group-by counts", tableRows)
	}
	return l.end("no such dead letters")
}

// deliveries is how often a dead letter was tried. A rescue is no attempt, so one
// that killed its workers may have none, and yet was delivered.
func deliveries(d *operate.DeadLetter) int {
	if d.Attempt == 0 || d.Kind == string(pawl.KindRescue) {
		return d.Attempt + d.Rescues
	}
	return d.Attempt
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return cut(oneLine(line), 80)
}

func (s *session) deadReport() *cobra.Command {
	since := flag.Duration(7 * 24 * time.Hour)
	var topic string
	c := &cobra.Command{
		Use: "report", Short: "Count dead letters by cause, key and day", Args: count(0, 0, "flags only"),
		Long: `Counts the dead letters of the last days: by cause, by key, and by day. If one key has
more than half of them, the cause is probably a customer or a device, not the program.`,
		Example: `  pawl dead report
  pawl dead report --since 24h --topic mail -o json`,
		RunE: with(s, "report on dead letters", func(c *cobra.Command, _ []string, d store.DeadLetters) error {
			r, err := operate.ReportDead(c.Context(), d, store.DeadFilter{Topic: topic,
				Since: time.Now().Add(-time.Duration(since)), Brief: true})
			if err != nil {
				return cannot(err, "report on dead letters")
			}
			return s.one(r, func(w io.Writer) { describeReport(w, r) })
		}),
	}
	c.Flags().Var(&since, "since", "how far back to count")
	c.Flags().StringVar(&topic, "topic", "", "of this topic only")
	return c
}

func (s *session) deadShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a dead letter with all its attempts", Args: count(1, 1, "one id"),
		Long: `Shows a dead letter: the message, what killed it, and every attempt with the rule
that decided.`,
		Example: `  pawl dead show $(pawl dead ls -o json | sed -n 's/.*"id":"\([^"]*\)".*/\1/p' | head -1)`,
		RunE: s.withID("show a dead letter", func(ctx context.Context, i store.Inspector, id string) error {
			r, err := i.Get(ctx, id)
			if err == nil && r.State != store.IsDead {
				err = &store.Error{Op: "dead letter " + id, Code: store.ErrNotFound,
					Err: fmt.Errorf("the message is %s", r.State), Hint: "pawl messages show " + operate.Operands(id)}
			}
			if err != nil {
				return cannot(err, "show dead letter %s", id)
			}
			d := struct {
				operate.DeadLetter
				operate.Trace
			}{operate.FormDeadLetter(&r), operate.Trace{TraceID: observe.TraceIn(r.Headers)}}
			if err := s.findTrace(&d.Trace, id); err != nil {
				return err
			}
			return s.one(d, func(w io.Writer) {
				describeTrace(w, &d.Trace)
				describeDead(w, &d.DeadLetter)
			})
		}),
	}
}

func describeReport(w io.Writer, r *operate.DeadReport) {
	fmt.Fprintf(w, "%d dead letters since %s\n", r.Count, r.Since.Format(time.RFC3339))
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, part := range []struct {
		title string
		rows  []operate.DeadCount
	}{{"by cause", r.Cause}, {"by key", r.Key}, {"by topic", r.Topic}, {"by day", r.Day}} {
		if len(part.rows) == 0 {
			continue
		}
		fmt.Fprintf(t, "\n%s\n", part.title)
		for _, c := range part.rows {
			fmt.Fprintf(t, "  %d\t%.0f %%\t%s\t%s\n", c.Count, 100*c.Share, oneLine(c.Name), oneLine(c.Text))
		}
	}
	_ = t.Flush() // the writer behind it keeps its error
}

func (s *session) deadReplay() *cobra.Command {
	o := operation{kind: operate.KindReplay}
	c := s.deadOperation(&o, "reason", &cobra.Command{
		Short: "Append dead letters again",
		Long: `Appends dead letters again, to the tail of their lane, with their id and history;
attempts are counted from zero again, unless --keep-attempts is given: then a message that used
up its attempts gets one more. It replays dead letters named by id or selected by
flags, the oldest death first. Those that die again meanwhile are not replayed again.

With --dry-run it prints the plan: how many, for which keys, the oldest, and what to
watch out for. Some may be refused because another message has taken their unique key
since; then the exit code is 3.

A replay is an operation: it has an id, and each letter is replayed once, even if this
process is killed. Ctrl-C pauses it (exit code 4); ` + "`pawl operations`" + ` shows, pauses,
cancels and resumes it from anywhere.

` + editHelp,
		Example: `  pawl dead replay --topic mail --dry-run
  pawl dead replay --topic mail --reason timeout --rate 50/s
  pawl dead replay --fingerprint 0123456789ab --to mail-again
  pawl dead replay --topic mail --keep-attempts
  pawl dead replay --topic mail --search '"to"' --edit '.to = "postmaster"'`,
	})
	o.edits.add(c.Flags())
	o.rate = flag.Rate{PerSecond: replayRate, Text: fmt.Sprintf("%d/s", replayRate)}
	c.Flags().Var(&o.rate, "rate", "no faster than this, such as 50/s")
	c.Flags().BoolVar(&o.keep, "keep-attempts", false, "keep the count of the attempts that they had")
	c.Flags().StringVar(&o.to, "to", "", "append them to this `TOPIC` instead")
	return c
}

// replayRate is how many dead letters are replayed a second, unless --rate says otherwise: what failed them may be
// up again, but not ready for all of them at once.
const replayRate = 100

// editHelp is what --edit is about.
var editHelp = fmt.Sprintf(`--edit changes bodies that are JSON by a program of jq, which makes one value of
one value: '.to = "x"', 'del(.debug)', '.items |= map(select(.ok))'. Numbers that
it does not compute keep their digits; names within an object come in order. A
body that is no JSON is refused, and stays dead. Who edited, when, and the hash of
the original are in headers (%s …), the original itself is in the audit,
up to 64 KiB.`, operate.HeaderEditedBy)

func (s *session) deadResolve() *cobra.Command {
	o := operation{kind: operate.KindResolve}
	c := s.deadOperation(&o, "reason", &cobra.Command{
		Short: "Mark dead letters as resolved",
		Long: `Marks dead letters as resolved, by id or selected by flags: they have been dealt with
in another way, and nothing needs to be done about them. They stay in the store,
for ` + "`pawl dead ls --resolved`" + ` and to be replayed or discarded later; other commands
select open ones only, and figures, checks and alerts count only those. Where the topic
parks, a resolved letter still parks what follows it.

--note says what was done. Resolving again replaces the note; ` + "`pawl dead reopen`" + ` takes
the mark away. It is an operation, like a replay: see ` + "`pawl operations`" + `.`,
		Example: `  pawl dead resolve --topic mail --reason "no such address" --dry-run
  pawl dead resolve --topic mail --reason "no such address" --note "customers who left"`,
	})
	c.Flags().StringVar(&o.why, "note", "", "what was done about them")
	return c
}

func (s *session) deadReopen() *cobra.Command {
	return s.deadOperation(&operation{kind: operate.KindReopen}, "reason", &cobra.Command{
		Short: "Take the mark off resolved dead letters",
		Long:  `Makes resolved dead letters open again, by id or selected by flags.`,
		Example: `  pawl dead reopen --topic mail --dry-run
  pawl dead reopen --all`,
	})
}

func (s *session) deadDiscard() *cobra.Command {
	o := operation{kind: operate.KindDiscard}
	c := s.deadOperation(&o, "matching", &cobra.Command{
		Short: "Remove dead letters for good",
		Long: `Removes dead letters for good, by id or selected by flags. It asks first, unless --yes
is given; --dry-run prints the plan. --reason says why they are discarded: it does not
select, it is stored in the audit. To select by their own reason, use --matching.

A discard is an operation, like a replay: see ` + "`pawl operations`" + `.`,
		Example: `  pawl dead discard --topic mail --dry-run
  pawl dead discard --topic mail --matching "no such address" --reason "customers who left" --yes`,
	})
	c.Flags().Var(&o.rate, "rate", "no faster than this, such as 50/s")
	c.Flags().StringVar(&o.why, "reason", "", "the reason, for the audit")
	return c
}

// deadOperation completes a command that does something to dead letters; reasonFlag selects by their reason.
func (s *session) deadOperation(o *operation, reasonFlag string, c *cobra.Command) *cobra.Command {
	var f deadFilter
	var all bool
	which := "open"
	if o.kind == operate.KindReopen {
		which = "resolved"
	}
	c.Use, c.Args = o.kind+" [ID…]", count(0, -1, "ids")
	c.RunE = func(c *cobra.Command, ids []string) error {
		sel, err := f.selection(c, ids, all)
		if err != nil {
			return err
		}
		if o.to != "" {
			if err := pawl.ValidTopic(o.to); err != nil {
				return cannot(err, "replay to topic %s", o.to)
			}
		}
		if err := o.edits.check(sel.IDs); err != nil {
			return err
		}
		if o.kind == operate.KindReopen {
			sel.Filter.Resolved = new(true)
		}
		return s.operate(c.Context(), sel, o)
	}
	f.add(c.Flags(), reasonFlag)
	c.Flags().BoolVar(&all, "all", false, "all "+which+" dead letters of the store")
	return c
}
