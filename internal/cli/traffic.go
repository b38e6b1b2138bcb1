package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/cli/flag"
	"github.com/pawl-dev/pawl/internal/migrate"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) traffic() *cobra.Command {
	return noun("traffic", "Move topics to another store, and back",
		`Moves topics from one store (--store) to another one (--mirror, PAWL_MIRROR, or
mirror: in the configuration file), while they are in use: copy, compare, cut over;
and roll back. Every process that appends or works needs the same --mirror, before
the first step; the stage of a topic is kept in the state of the old store, so that they
all agree.

  pawl traffic mirror TOPIC     the old store is in charge; a copy goes to the new one
  pawl traffic compare TOPIC    see whether they differ
  pawl traffic cut-over TOPIC   the new store is in charge, once they have not differed
  pawl traffic roll-back TOPIC  the old store is in charge again, and has everything
  pawl traffic stop TOPIC       no more copies

Until the cut-over, nothing except these copies may be appended to the topic in the new store.
docs/traffic.md describes which properties are preserved, and what to check.`,
		s.trafficMirror(), s.trafficStatus(), s.trafficCompare(), s.trafficCutOver(), s.trafficRollBack(),
		s.trafficStop())
}

// openTraffic opens both stores, each by itself.
func (s *session) openTraffic(ctx context.Context) (*migrate.Traffic, error) {
	first, err := s.openAlone(ctx, open.Config{AutoMigrate: s.autoMigrate})
	if err != nil {
		return nil, err
	}
	to := s.target()
	switch {
	case to == "":
		return nil, usage("such as --mirror kafka://localhost:9092, or PAWL_MIRROR",
			"the store to which topics move is not named")
	case open.SameStore(to, s.url()):
		return nil, usage("name the new store: --mirror, PAWL_MIRROR or mirror: in the configuration file",
			"the mirror is the store itself")
	}
	second, err := open.Open(ctx, open.Config{
		URL: to, AutoMigrate: s.autoMigrate, Logger: s.warnings(), Created: func(path string) {
			s.note("%s did not exist: it is a new, empty store", path)
		},
	})
	if err != nil {
		return nil, cannot(err, "open the mirror %s", redact.URL(to))
	}
	s.more = append(s.more, second)
	t, err := migrate.New(ctx, first, second, s.who(), redact.URL(to))
	if err != nil {
		return nil, cannot(err, "move traffic")
	}
	t.Tell = s.note
	return t, nil
}

func (s *session) trafficMirror() *cobra.Command {
	return &cobra.Command{
		Use: "mirror TOPIC…", Short: "Copy new messages of topics into the new store", Args: count(1, -1, "topics"),
		Long: `From now on, every process that has the same --mirror copies the messages that it appends
to these topics: with the same ids, keys, bodies, headers and priorities, in the order of
each key. The old store stays in charge, and never waits for the new one. A topic gets
the same settings in the new store, and must be empty there.`,
		Example: `  pawl traffic mirror mail --mirror sqlite:new.db
  pawl traffic mirror mail --mirror sqlite:new.db --dry-run`,
		RunE: func(c *cobra.Command, topics []string) error {
			return s.changeTraffic(c.Context(), "copy", topics, func(t *migrate.Traffic, topic string) error {
				return t.Begin(c.Context(), topic, s.dryRun)
			})
		},
	}
}

func (s *session) trafficStop() *cobra.Command {
	return &cobra.Command{
		Use: "stop TOPIC…", Short: "Copy no more", Args: count(1, -1, "topics"),
		Long:    `Stops copying topics. The old store stays in charge; copies in the new one stay there.`,
		Example: `  pawl traffic stop mail --mirror sqlite:new.db`,
		RunE: func(c *cobra.Command, topics []string) error {
			return s.changeTraffic(c.Context(), "stop copying", topics, func(t *migrate.Traffic, topic string) error {
				return t.Stop(c.Context(), topic, s.dryRun)
			})
		},
	}
}

// changeTraffic begins or ends the copying of topics, and prints how far they are.
func (s *session) changeTraffic(ctx context.Context, verb string, topics []string,
	change func(t *migrate.Traffic, topic string) error) error {
	t, err := s.openTraffic(ctx)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		if err := change(t, topic); err != nil {
			return cannot(err, "%s topic %s", verb, topic)
		}
		if s.dryRun {
			s.note("would %s topic %s; the new store is %s", verb, topic, t.Target)
		}
	}
	return s.printTraffic(ctx, t, topics)
}

func (s *session) trafficStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status [TOPIC…]", Short: "Show how far each topic has moved", Args: count(0, -1, "topics"),
		Long: `Shows the stage of topics, the unfinished messages in either store, and the progress of
copying: copies that wait, and messages without a copy. Exits with 7 if something is
wrong.`,
		Example: `  pawl traffic status --mirror sqlite:new.db
  pawl traffic status mail --mirror sqlite:new.db -o json`,
		RunE: func(c *cobra.Command, topics []string) error {
			t, err := s.openTraffic(c.Context())
			if err != nil {
				return err
			}
			return s.printTraffic(c.Context(), t, topics)
		},
	}
}

// printTraffic prints how far topics are.
func (s *session) printTraffic(ctx context.Context, t *migrate.Traffic, topics []string) error {
	all, err := t.Status(ctx, topics...)
	if err != nil {
		return cannot(err, "look at traffic")
	}
	l := s.list("TOPIC", "STAGE", "IN CHARGE", ">NOT DONE, OLD", ">NEW", ">COPIES", ">WAITING", ">MISSED", ">REFUSED")
	var problems []string
	for i := range all {
		st := &all[i]
		for _, p := range st.Problems {
			problems = append(problems, "topic "+st.Topic+": "+p)
		}
		l.add(st, st.Topic, cmp.Or(string(st.Stage), "off"), cmp.Or(inCharge[string(st.Stage)], "old"),
			number(st.Open.From), number(st.Open.To),
			number(st.Copies.Written), number(st.Waiting), number(st.Copies.Missed), number(st.Copies.Refused))
	}
	if err := l.end("no topic is being moved; begin with `pawl traffic mirror TOPIC`"); err != nil {
		return err
	}
	if len(problems) > 0 {
		return &problem{code: exitFound, what: operate.Counted(len(problems), "problem"),
			err:  errors.New(strings.Join(problems, "\n")),
			next: "see docs/traffic.md; `pawl traffic compare TOPIC` names messages"}
	}
	return nil
}

// inCharge is the store that is in charge of a topic, by stage; in others it is the old one.
var inCharge = map[string]string{
	"draining": "new, after the old", "moved": "new", "returning": "old, after the new", "closing": "appends wait",
}

func (s *session) trafficCompare() *cobra.Command {
	wait := flag.Duration(30 * time.Second)
	c := &cobra.Command{
		Use: "compare TOPIC…", Short: "Compare the copies of topics with the originals", Args: count(1, -1, "topics"),
		Long: `Compares, by key, the unfinished messages of the old store with the copies in the new one:
missing, out of order, different. Exits with 7 if there are differences.

When an original is done in the old store, its copy is consumed in the new one,
without processing it; so both have the same backlog. Finished messages of the old store
can be compared only if the topic retains them (pawl topics set --retain). --dry-run
consumes nothing.`,
		Example: `  pawl traffic mirror mail --mirror sqlite:new.db
  pawl traffic compare mail --mirror sqlite:new.db
  pawl traffic compare mail --mirror sqlite:new.db --wait 1s -o json`,
		RunE: func(c *cobra.Command, topics []string) error {
			t, err := s.openTraffic(c.Context())
			if err != nil {
				return err
			}
			l, found := s.list("TOPIC", ">KEYS", ">COMPARED", ">MISSING", ">OUT OF ORDER", ">DIFFERENT", ">LATE",
				">DONE", ">BEFORE", ">NO COPIES"), int64(0)
			var named []string
			for _, topic := range topics {
				d, err := t.Compare(c.Context(), topic, time.Duration(wait), s.dryRun)
				if err != nil {
					return cannot(err, "compare topic %s", topic)
				}
				found += d.Found()
				named = append(named, nameDifferences(d)...)
				l.add(d, d.Topic, number(d.Keys), number(d.Compared), number(d.Missing), number(d.Disordered),
					number(d.Different),
					number(d.Late), number(d.Done), number(d.Before), number(d.Originals))
			}
			if err := l.end("nothing"); err != nil {
				return err
			}
			if found > 0 {
				return &problem{code: exitFound, what: operate.Counted(found, "difference"),
					err:  errors.New(strings.Join(named, "\n")),
					next: "nothing is lost: the old store has them, and its workers process them; docs/traffic.md explains where differences come from"}
			}
			return nil
		},
	}
	c.Flags().Var(&wait, "wait", "how long to wait for copies that are on their way")
	return c
}

// nameDifferences names the first messages that differ, by key.
func nameDifferences(d *migrate.Comparison) (lines []string) {
	for i := range d.Diffs {
		k := &d.Diffs[i]
		if i == 10 {
			return append(lines, fmt.Sprintf("… %d more keys; -o json has them all", len(d.Diffs)-i))
		}
		key := "messages without a key"
		switch {
		case k.Key != nil:
			key = "key " + *k.Key
		case k.KeyBase64 != "":
			key = "key " + k.KeyBase64 + " (base64)"
		}
		lines = append(lines, fmt.Sprintf("topic %s, %s: %d missing, %d out of order, %d different: %s", d.Topic,
			oneLine(key),
			k.Missing, k.Disordered, k.Different, strings.Join(k.IDs, " ")))
	}
	return lines
}

func (s *session) trafficCutOver() *cobra.Command {
	m := migrate.Moving{}
	calm, timeout := flag.Duration(5*time.Minute), flag.Duration(0)
	c := &cobra.Command{
		Use: "cut-over TOPIC…", Short: "Put the new store in charge", Args: count(1, -1, "topics"),
		Long: `Puts the new store in charge of topics, one after the other:

  1. waits until the stores have not differed for as long as --for says
  2. lets appends wait, for some seconds, and consumes copies that are left
  3. lets appends go to the new store, where no worker is active yet
  4. waits until the workers of the old store have finished everything there
  5. lets workers process the new store

So the order of every key is kept, and nothing is done twice. Workers that name the new
store as their --store must not run before the end.

It can be interrupted, or killed, at any time: run the same command again to continue.
Appends never wait for longer than half a minute. Exit code 4: not finished.`,
		Example: `  pawl traffic mirror mail --mirror sqlite:new.db
  pawl traffic cut-over mail --mirror sqlite:new.db --for 5m --dry-run`,
		RunE: func(c *cobra.Command, topics []string) error {
			m.Calm, m.Timeout, m.DryRun = time.Duration(calm), time.Duration(timeout), s.dryRun
			return s.move(c.Context(), topics, "cut over", func(ctx context.Context, t *migrate.Traffic,
				topic string) (*migrate.Moved, error) {
				return t.CutOver(ctx, topic, m)
			})
		},
	}
	c.Flags().Var(&calm, "for", "how long lag and differences must have been 0")
	c.Flags().Var(&timeout, "timeout",
		"give up after waiting this much longer, or this long for workers (default: never)")
	c.Flags().StringVar(&m.Reason, "reason", "", "why, for the audit")
	return c
}

func (s *session) trafficRollBack() *cobra.Command {
	m := migrate.Moving{}
	timeout := flag.Duration(0)
	c := &cobra.Command{
		Use: "roll-back TOPIC…", Short: "Put the old store in charge again", Args: count(1, -1, "topics"),
		Long: `Puts the old store in charge of topics again, the same way: appends wait for some
seconds and then go to the old store; the workers finish everything in the new one, and
then process the old one. So the order of every key is kept. Dead letters stay in the
new store. Afterwards the topics are copied again; pawl traffic stop ends that.

A roll-back of a cut-over that has not ended ends that first. It can be interrupted, or
killed, at any time: run the same command again to continue. Exit code 4: not finished.`,
		Example: `  pawl traffic mirror mail --mirror sqlite:new.db
  pawl traffic roll-back mail --mirror sqlite:new.db --dry-run`,
		RunE: func(c *cobra.Command, topics []string) error {
			m.Timeout, m.DryRun = time.Duration(timeout), s.dryRun
			return s.move(c.Context(), topics, "roll back", func(ctx context.Context, t *migrate.Traffic,
				topic string) (*migrate.Moved, error) {
				return t.RollBack(ctx, topic, m)
			})
		},
	}
	c.Flags().Var(&timeout, "timeout", "give up after waiting this long for workers (default: never)")
	c.Flags().StringVar(&m.Reason, "reason", "", "why, for the audit")
	return c
}

// move moves topics, and prints what became of each.
func (s *session) move(ctx context.Context, topics []string, verb string,
	do func(context.Context, *migrate.Traffic, string) (*migrate.Moved, error)) error {
	t, err := s.openTraffic(ctx)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		done, err := do(ctx, t, topic)
		if done != nil {
			err = errors.Join(err, s.one(done, func(w io.Writer) { s.describeMoved(w, done) }))
		}
		switch {
		case errors.Is(err, migrate.ErrUnfinished):
			return &problem{code: exitUnfinished, what: fmt.Sprintf("cannot %s topic %s yet", verb, topic), err: err,
				next: "run the same command again: it continues from there"}
		case err != nil && !errors.Is(err, store.ErrConflict):
			return &problem{what: fmt.Sprintf("cannot %s topic %s", verb, topic), err: err}
		case err != nil:
			return cannot(err, "%s topic %s", verb, topic)
		}
	}
	return nil
}

func (s *session) describeMoved(w io.Writer, m *migrate.Moved) {
	would := ""
	if s.dryRun {
		would = "now "
	}
	fmt.Fprintf(w, "topic %s is %s%s after %v", oneLine(m.Topic), would, m.Stage,
		asDuration(m.Seconds).Round(100*time.Millisecond))
	if m.ClosedSeconds > 0 {
		fmt.Fprintf(w, "; appends waited for %.1f s", m.ClosedSeconds)
	}
	if m.Dead > 0 {
		fmt.Fprintf(w, "; %d dead letters stay in the store that it leaves", m.Dead)
	}
	fmt.Fprintln(w)
}

// notMoved refuses to change a topic of this store that has moved to another one, where
// the change would do nothing, and says of one that is on its way what is left out.
func (s *session) notMoved(ctx context.Context, topic, verb string) error {
	away, err := migrate.Away(ctx, s.opened)
	if err != nil {
		return cannot(err, "%s topic %s", verb, topic)
	}
	for i := range away {
		a := &away[i]
		switch {
		case a.Topic != topic:
		case a.Moved:
			return &problem{code: exitConflict, what: fmt.Sprintf("cannot %s topic %s", verb, topic),
				err: fmt.Errorf("it has moved to %s: no worker processes it in this store", a.Target), next: a.There()}
		default:
			s.note("topic %s is %s: part of it is in %s, which this leaves as it is; for that, %s", topic, a.Stage,
				a.Target, a.There())
		}
	}
	return nil
}

// elsewhere says in which other stores ids may be that are unknown here.
func (s *session) elsewhere(ctx context.Context) {
	away, err := migrate.Away(ctx, s.opened)
	if err != nil || len(away) == 0 {
		return
	}
	var where []string
	for i := range away {
		where = append(where, fmt.Sprintf("topic %s has moved to %s: %s", away[i].Topic, away[i].Target,
			away[i].There()))
	}
	s.note("those that are not found may be in another store; %s", strings.Join(where, "; "))
}
