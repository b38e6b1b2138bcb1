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
	"github.com/pawl-dev/pawl/internal/cluster"
	"github.com/pawl-dev/pawl/internal/operate"
)

func (s *session) kafkaCommand() *cobra.Command {
	return noun("kafka", "A Kafka cluster: topics, health, records",
		`Commands about the cluster behind a kafka:// store itself: its
topics, the consumer group, the records of a partition. All other commands work as
with any store.`,
		noun("topics", "Topics of the cluster", "Topics as the brokers have them.", s.kafkaTopicsEnsure()),
		s.kafkaHealth(), s.kafkaPeek())
}

// kafka opens the store, which must be a Kafka one.
func (s *session) kafka(ctx context.Context, what string) (*cluster.Cluster, error) {
	opened, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	k, err := cluster.Of(opened, what)
	return k, cannot(err, "%s", what)
}

func (s *session) kafkaHealth() *cobra.Command {
	return looks(&cobra.Command{
		Use: "health [TOPIC…]", Short: "Check the health of the cluster, its topics and the group",
		Args: count(0, -1, "topics"),
		Long: `Shows the brokers, the topics with partitions that have no leader or whose replicas
are behind, the members of the group, and its progress in every partition: every
unfinished message counts, even if later ones are finished. Exits with 7 if something
is wrong.`,
		Example: `  pawl kafka health --store kafka://localhost:9092
  pawl kafka health mail -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			k, err := s.kafka(c.Context(), "look at the health of a cluster")
			if err != nil {
				return err
			}
			h, err := k.Health(c.Context(), args...)
			if err != nil {
				return cannot(err, "look at the health of the cluster")
			}
			if err := s.one(h, func(w io.Writer) { describeHealth(w, h) }); err != nil {
				return err
			}
			if len(h.Faults) > 0 {
				return &problem{code: exitFound, what: operate.Counted(len(h.Faults), "problem"),
					next: "docs/runbook has a page for most of them"}
			}
			return nil
		},
	})
}

func describeHealth(w io.Writer, h *cluster.Health) {
	fmt.Fprintf(w, "cluster %s: %d brokers (%s), controller %d\n", h.Cluster, len(h.Brokers),
		strings.Join(h.Brokers, ", "), h.Controller)
	state := strings.ToLower(h.Group.State)
	if state == "" || state == "dead" {
		state = "does not exist yet: no worker has joined it"
	}
	fmt.Fprintf(w, "group %s: %s, %d members\n", h.Group.Name, state, len(h.Group.Members))
	for _, m := range h.Group.Members {
		fmt.Fprintf(w, "  %s at %s has %d partitions\n", oneLine(m.ID), oneLine(m.Host), m.Partitions)
	}
	for _, t := range h.Topics {
		fmt.Fprintf(w, "topic %s: %d partitions, %d replicas, %d dead letters\n", t.Topic, t.Partitions,
			t.Replicas, t.Dead)
		for _, p := range h.Lags {
			if p.Topic == t.Topic {
				fmt.Fprintf(w, "  partition %-3d lag %-8d committed %-8s of %-8d %s\n", p.Partition, p.Left,
					committed(p.Committed), p.End, oneLine(p.Member))
			}
		}
	}
	for _, p := range h.Faults {
		fmt.Fprintf(w, "✘ %s: %s\n", oneLine(p.About), oneLine(p.What))
	}
	if len(h.Faults) == 0 {
		fmt.Fprintln(w, "✔ no problems")
	}
}

func committed(offset int64) string {
	if offset < 0 {
		return "nothing"
	}
	return fmt.Sprint(offset)
}

func (s *session) kafkaPeek() *cobra.Command {
	var partition int32
	offset, n := int64(-1), 1
	c := &cobra.Command{
		Use: "peek TOPIC", Short: "Read records of a partition, without moving the group",
		Args: count(1, 1, "one topic"),
		Long: `Reads records of a partition from an offset on, without moving the group. Without an
offset it begins at the first message that the group has not finished: if the
partition is stuck, the one that holds up the commits.`,
		Example: `  pawl kafka peek mail --partition 0
  pawl kafka peek mail --partition 0 --offset 2 -n 5 -o jsonl`,
		RunE: func(c *cobra.Command, args []string) error {
			if n < 1 || partition < 0 || offset < -1 {
				return usage("partition and offset go from 0, -n from 1", "partition %d, offset %d, n %d",
					partition, offset, n)
			}
			k, err := s.kafka(c.Context(), "read a partition")
			if err != nil {
				return err
			}
			seen, err := k.Peek(c.Context(), args[0], partition, offset, n)
			if err != nil {
				return cannot(err, "read partition %d of topic %s", partition, args[0])
			}
			l := s.list(">OFFSET", "ID", "KEY", "AT", "BODY")
			for i := range seen {
				m := &seen[i]
				l.add(m, fmt.Sprint(m.Offset), m.ID, s.cell(keyCell(&m.Message), 24), s.at(m.Timestamp),
					bodyCell(&m.Message, 60))
			}
			return l.end("nothing is there")
		},
	}
	c.Flags().Int32Var(&partition, "partition", 0, "which partition")
	c.Flags().Int64Var(&offset, "offset", -1, "from this `OFFSET` on (default: the first unfinished one)")
	c.Flags().IntVarP(&n, "count", "n", n, "read this many")
	return looks(c)
}

func (s *session) skip() *cobra.Command {
	var partition int32
	var reason string
	offset, wait := int64(-1), flag.Duration(30*time.Second)
	c := &cobra.Command{
		Use: "skip ID", Short: "Skip a stuck message: move it to the dead letters",
		Args: count(1, 1, "one id, or a topic with --partition"),
		Long: `Moves a message that is not done to the dead letters, where it can be inspected, edited and
replayed; later messages of its key go on at once. Nothing is lost. If a worker
has the message, its verdict is refused from then on.

Over Kafka, messages are named by topic, partition and offset: without an offset, it is
the first message of the partition that the group has not finished. If a worker has the
partition, that worker is asked to do it: at once if the message waits for a retry,
otherwise when its handler has returned.`,
		Example: `  pawl skip $(pawl send mail "poison") --dry-run
  pawl skip $(pawl send mail "poison") --reason "poisoned by import 17" --yes
  pawl skip mail --partition 0 --dry-run --store kafka://localhost:9092
  pawl skip mail --partition 0 --offset 2 --yes --store kafka://localhost:9092`,
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("partition") {
				return s.skipID(c.Context(), args[0], reason)
			}
			if partition < 0 || offset < -1 {
				return usage("partition and offset go from 0", "partition %d, offset %d", partition, offset)
			}
			k, err := s.kafka(c.Context(), "skip a message")
			if err != nil {
				return err
			}
			return s.skipOne(c.Context(), k, args[0], partition, offset, reason, time.Duration(wait))
		},
	}
	c.Flags().Int32Var(&partition, "partition", 0, "which partition")
	c.Flags().Int64Var(&offset, "offset", -1, "which `OFFSET` (default: the first unfinished one)")
	c.Flags().StringVar(&reason, "reason", "", "the reason, for other operators")
	c.Flags().Var(&wait, "wait", "how long to wait for the worker that has the partition")
	return changes(c)
}

func (s *session) skipOne(ctx context.Context, k *cluster.Cluster, topic string, partition int32, offset int64,
	reason string, wait time.Duration) error {
	seen, err := k.Peek(ctx, topic, partition, offset, 1)
	if err != nil {
		return cannot(err, "skip a message of topic %s", topic)
	}
	if len(seen) == 0 {
		return &problem{code: exitNotFound, what: fmt.Sprintf("nothing is unfinished in partition %d of topic %s",
			partition, topic),
			err:  errors.New("the group has finished everything up to its end"),
			next: "there is nothing to skip; `pawl kafka health " + topic + "` shows where something waits"}
	}
	m := &seen[0]
	if s.dryRun {
		s.note("would move %s at offset %d to the dead letters", m.ID, m.Offset)
		return s.one(m, func(w io.Writer) { fmt.Fprintf(w, "%s\t%s\n", m.ID, bodyCell(&m.Message, 60)) })
	}
	if err := s.confirm("move message %s at offset %d to the dead letters", m.ID, m.Offset); err != nil {
		return err
	}
	done, err := k.Skip(ctx, topic, partition, m.Offset, s.who(), reason, wait)
	if err != nil {
		return cannot(err, "skip message %s", m.ID)
	}
	err = s.one(done, func(w io.Writer) {
		if !done.Pending {
			fmt.Fprintf(w, "%s at offset %d was skipped; it is a dead letter now: pawl dead show %s\n",
				done.ID, done.Offset, operate.Operands(done.ID))
		}
	})
	if err == nil && done.Pending {
		err = &problem{
			code: exitUnfinished,
			what: fmt.Sprintf("the worker that has partition %d was asked, but has not done it within %v",
				partition, wait),
			next: "it will when the handler of that message, or of an earlier one of its key, returns; `pawl kafka health` names the worker",
		}
	}
	return err
}

func (s *session) kafkaTopicsEnsure() *cobra.Command {
	profile := "development"
	var spec cluster.Spec
	var retention flag.Duration
	var alone bool
	c := &cobra.Command{
		Use: "ensure TOPIC…", Short: "Create topics and their dead-letter topics, or check them",
		Args: count(1, -1, "topics"),
		Long: `Creates missing topics, each with a topic for its dead letters, and corrects settings
of existing ones that differ from the profile. It can be run any number of times.

  --profile development   4 partitions, 1 replica, min.insync.replicas 1, 7 days, lz4, 1 MiB
  --profile production    12 partitions, 3 replicas, min.insync.replicas 2, 7 days, lz4, 1 MiB

production also gives the topic of the store's own state that many replicas. A
dead-letter topic has as many partitions as its topic, and keeps messages for 30 days.
The number of partitions of an existing topic is never changed: keys would move to
other partitions and lose their order.`,
		Example: `  pawl kafka topics ensure mail --store kafka://localhost:9092
  pawl kafka topics ensure orders sms --profile production --dry-run
  pawl kafka topics ensure events --partitions 24 --retention 72h`,
		RunE: func(c *cobra.Command, args []string) error {
			base, ok := cluster.Profiles[profile]
			if !ok {
				return usage("use development or production", "--profile is %q", profile)
			}
			if err := sensible(c, &spec, time.Duration(retention)); err != nil {
				return err
			}
			want := merge(base, spec, time.Duration(retention))
			k, err := s.kafka(c.Context(), "make topics")
			if err != nil {
				return err
			}
			for _, name := range args { // before any is changed
				if err := k.Workable(name); err != nil {
					return cannot(err, "ensure topic %s", name)
				}
			}
			l := s.list("TOPIC", "STATE", ">PARTITIONS", ">REPLICAS", "CHANGED")
			var errs []error
			for _, name := range args {
				pairs := []struct {
					name string
					spec cluster.Spec
				}{{name, want}, {k.DeadName(name), want.Dead()}}
				if alone {
					pairs = pairs[:1]
				}
				for _, p := range pairs {
					e, err := k.Ensure(c.Context(), p.name, p.spec, s.dryRun)
					if err != nil {
						errs = append(errs, cannot(err, "ensure topic %s", p.name))
						break
					}
					l.addEnsured(&e, s.dryRun)
				}
			}
			if profile == "production" && len(errs) == 0 {
				errs = append(errs, s.ensureState(c.Context(), k, want, l))
			}
			return errors.Join(append([]error{l.end("no topics")}, errs...)...)
		},
	}
	f := c.Flags()
	f.StringVar(&profile, "profile", profile, "the settings that topics get: development or production")
	f.Int32Var(&spec.Partitions, "partitions", 0, "number of partitions (default: that of the profile)")
	f.Int16Var(&spec.Replicas, "replicas", 0, "number of replicas (default: that of the profile)")
	f.IntVar(&spec.MinISR, "min-isr", 0, "replicas in sync that a write needs (default: that of the profile)")
	f.Var(&retention, "retention", "how long to keep messages (default: that of the profile)")
	f.IntVar(&spec.MaxBytes, "max-bytes", 0, "maximum size of a batch (default: that of the profile)")
	f.BoolVar(&alone, "no-dead", false, "leave the topics of dead letters alone")
	return c
}

// ensureState sees to the topic of the store's own state: workers cannot start without it.
func (s *session) ensureState(ctx context.Context, k *cluster.Cluster, want cluster.Spec, l *list) error {
	e, err := k.EnsureState(ctx, want, s.dryRun)
	if err != nil {
		return cannot(err, "ensure topic %s", e.Topic)
	}
	l.addEnsured(&e, s.dryRun)
	return nil
}

// minTopicBytes is less than any topic is of use with: a batch has 61 bytes of its own,
// and a message has an id.
const minTopicBytes = 1 << 10

// sensible refuses values that no topic can have, which would otherwise be taken for
// flags that are not given.
func sensible(c *cobra.Command, spec *cluster.Spec, retention time.Duration) error {
	for _, f := range []struct {
		name        string
		value, from int64
	}{
		{"partitions", int64(spec.Partitions), 1}, {"replicas", int64(spec.Replicas), 1},
		{"min-isr", int64(spec.MinISR), 1}, {"max-bytes", int64(spec.MaxBytes), minTopicBytes},
	} {
		if c.Flags().Changed(f.name) && f.value < f.from {
			return usage("leave it out for that of the profile", "--%s is %d; it is %d or more", f.name,
				f.value, f.from)
		}
	}
	if c.Flags().Changed("retention") && retention < time.Millisecond {
		return usage("leave it out for that of the profile",
			"--retention is %v; the minimum is a millisecond", retention)
	}
	return nil
}

// merge is a profile with what flags say otherwise.
func merge(base, flags cluster.Spec, retention time.Duration) cluster.Spec {
	base.Partitions = cmp.Or(flags.Partitions, base.Partitions)
	base.Replicas = cmp.Or(flags.Replicas, base.Replicas)
	base.MinISR = cmp.Or(flags.MinISR, base.MinISR)
	base.MaxBytes = cmp.Or(flags.MaxBytes, base.MaxBytes)
	base.Retention = cmp.Or(retention, base.Retention)
	return base
}

func (l *list) addEnsured(e *cluster.Ensured, dry bool) {
	l.add(e, e.Topic, ensuredWord(e, dry), fmt.Sprint(e.Partitions), fmt.Sprint(e.Replicas),
		strings.Join(e.Changed, " "))
}

func ensuredWord(e *cluster.Ensured, dry bool) string {
	switch {
	case e.Created && dry:
		return "would be made"
	case e.Created:
		return "made"
	case len(e.Changed) > 0 && dry:
		return "would be changed"
	case len(e.Changed) > 0:
		return "changed"
	default:
		return "as it should be"
	}
}
