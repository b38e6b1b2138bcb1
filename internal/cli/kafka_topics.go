package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/cluster"
)

func (s *session) kafkaTopicsEnsure() *cobra.Command {
	profile := "development"
	var spec cluster.Spec
	var retention duration
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
	if flags.Partitions > 0 {
		base.Partitions = flags.Partitions
	}
	if flags.Replicas > 0 {
		base.Replicas = flags.Replicas
	}
	if flags.MinISR > 0 {
		base.MinISR = flags.MinISR
	}
	if flags.MaxBytes > 0 {
		base.MaxBytes = flags.MaxBytes
	}
	if retention > 0 {
		base.Retention = retention
	}
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
