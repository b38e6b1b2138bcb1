package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/cli/flag"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) topics() *cobra.Command {
	return noun("topics", "Topics: figures, settings, pause, removal",
		`A topic says what kind of work a message is; workers name the topics that they
carry out. Its settings are kept in the store, so that all processes agree.`,
		s.topicsLs(), s.topicsShow(), s.topicsPause(), s.topicsResume(), s.topicsSet(), s.topicsRm())
}

func (s *session) topicsLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls [TOPIC…]", Short: "List topics with their figures", Args: count(0, -1, "topics"),
		Long: `Lists all topics, or those named: how many messages are waiting, delayed, leased and
dead, how long the oldest has been waiting, when one was last acked, and totals since
the topic was created. A leased message is stuck if its worker has had it for longer than
half of the topic's deadline: ` + "`pawl reclaim --stuck`" + ` takes it back. A maximum of waiting
messages is shown, too, and whether the topic is full. The command counts messages, so do
not run it too often on a large store.`,
		Example: `  pawl topics ls
  pawl topics ls -o json`,
		RunE: with(s, "list topics", func(c *cobra.Command, args []string, topics store.Topics) error {
			stats, err := topics.Stats(c.Context(), args...)
			if err != nil {
				return cannot(err, "list topics")
			}
			for _, name := range args {
				if !slices.ContainsFunc(stats, func(t store.TopicStats) bool { return t.Name == name }) {
					return noTopic(name)
				}
			}
			l := s.list("TOPIC", "ORDER", ">WAITING", ">DELAYED", ">LEASED", ">DEAD", ">OLDEST", ">APPENDED",
				">ACKED", ">STUCK", "LAST ACK", "PAUSED")
			for i := range stats {
				t := operate.FormTopic(&stats[i])
				l.add(t, t.Topic, string(t.Order), waitingCell(&t), number(t.Delayed), number(t.Leased),
					number(t.Dead), age(stats[i].OldestWaiting), number(t.AppendedTotal),
					number(t.AckedTotal), number(t.Stuck), s.atp(t.LastAckAt), pauseCell(t.Pause))
			}
			return l.end("no topics yet; create one: pawl send mail \"hello\"")
		}),
	}
}

// waitingCell is how many messages wait, and of how many at most.
func waitingCell(t *operate.Topic) string {
	if t.MaxWaiting == 0 {
		return number(t.Waiting)
	}
	text := number(t.Waiting) + "/" + number(t.MaxWaiting)
	if t.Full {
		text += " full"
	}
	return text
}

func noTopic(name string) error {
	return &problem{code: exitNotFound, what: fmt.Sprintf("there is no topic %q", name), err: store.ErrNotFound,
		next: "`pawl topics ls` lists all"}
}

func pauseCell(p *operate.Pause) string {
	if p == nil {
		return ""
	}
	text := "by " + p.By
	if p.Until != nil {
		text += ", for " + age(time.Until(*p.Until))
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

func (s *session) topicsPause() *cobra.Command {
	var d flag.Duration
	var reason string
	c := &cobra.Command{
		Use: "pause TOPIC", Short: "Stop handing out the messages of a topic", Args: count(1, 1, "one topic"),
		Long: `Stops claims of a topic in every process, within two seconds; leased messages
continue. Messages can be appended as before. The pause lasts until the topic is
resumed, or as long as --for says.`,
		Example: `  pawl topics pause mail --reason "the server is being moved"
  pawl topics pause mail --for 10m`,
		RunE: with(s, "pause a topic", func(c *cobra.Command, args []string, topics store.Topics) error {
			return s.changeTopic(c, topics, args[0], "pause", reason, "is paused", func() error {
				return topics.Pause(c.Context(), args[0], time.Duration(d), s.who(), reason)
			})
		}),
	}
	pauseFlags(c, &d, &reason)
	return c
}

// pauseFlags are those of a pause of a topic or a pipeline.
func pauseFlags(c *cobra.Command, d *flag.Duration, reason *string) {
	c.Flags().Var(d, "for", "resume automatically after this long")
	c.Flags().StringVar(reason, "reason", "", "the reason, for other operators")
}

func (s *session) topicsResume() *cobra.Command {
	return &cobra.Command{
		Use: "resume TOPIC", Short: "End a pause", Args: count(1, 1, "one topic"),
		Long:    "Ends the pause of a topic. One that is not paused stays as it is.",
		Example: `  pawl topics resume mail`,
		RunE: with(s, "resume a topic", func(c *cobra.Command, args []string, topics store.Topics) error {
			return s.changeTopic(c, topics, args[0], "resume", "", "is not paused", func() error {
				return topics.Resume(c.Context(), args[0])
			})
		}),
	}
}

// changeTopic changes a topic that is there, writes that down and prints the topic; now is how it is then.
func (s *session) changeTopic(c *cobra.Command, topics store.Topics, name, verb, reason, now string,
	change func() error) error {
	if _, err := topics.Topic(c.Context(), name); err != nil {
		return cannot(err, "%s topic %s", verb, name)
	}
	if err := s.notMoved(c.Context(), name, verb); err != nil {
		return err
	}
	if s.dryRun {
		s.note("would %s topic %s", verb, name)
		return nil
	}
	if err := change(); err != nil {
		return cannot(err, "%s topic %s", verb, name)
	}
	if err := s.auditTopic(c, verb, name, reason); err != nil {
		return err
	}
	stats, err := topics.Stats(c.Context(), name)
	if err != nil || len(stats) == 0 {
		return cannot(err, "look at topic %s", name)
	}
	t := operate.FormTopic(&stats[0])
	return s.one(t, func(w io.Writer) { fmt.Fprintf(w, "topic %s %s\n", oneLine(name), now) })
}

// auditTopic writes down a change of a topic, with the flags that say what.
func (s *session) auditTopic(c *cobra.Command, verb, topic, why string) error {
	return s.audit(c.Context(), operate.AuditEntry{Action: "topics " + verb, Target: topic, Reason: why,
		Change: ownFlags(c),
		Count:  1, Result: operate.AuditResult{Done: 1}})
}

// ownFlags are the flags of a command that were given, but for the reason.
func ownFlags(c *cobra.Command) string {
	var flags []string
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "reason" {
			flags = append(flags, f.Name+"="+f.Value.String())
		}
	})
	return strings.Join(flags, " ")
}

// settingFlags are the flags of topics set; only those that are given count.
type settingFlags struct {
	order, retry             string
	deadline, ageing, retain flag.Duration
	park                     bool
	maxWaiting, version      int64
	retryFor, base, max      flag.Duration
	attempts                 int
}

// topicSettings is the JSON of `pawl topics set`.
type topicSettings struct {
	Topic string      `json:"topic"`
	Order store.Order `json:"order"`
	operate.Settings
	// Retries is what operators have set, and nothing of what pawl.yaml and programs say.
	Retries policy.Retries `json:"retries"`
}

func (s *session) topicsSet() *cobra.Command {
	var f settingFlags
	c := &cobra.Command{
		Use: "set TOPIC", Short: "Show or change a topic's settings", Args: count(1, 1, "one topic"),
		Long: `Changes settings of a topic, which is created if it does not exist; without flags it
shows them. A worker or a daemon that declares a setting changes it again when it starts;
` + "`pawl audit ls`" + ` shows that. --order and --retry can change only while the topic has no
messages except dead letters. With --if-version it changes nothing if somebody else has
changed the settings since.

With --max-waiting an append is refused while at least that many messages are waiting or
delayed, by figures that are a second old at most; the error says when to try again.
Messages that handlers emit are never refused, nor retried or replayed ones. Kafka refuses
this setting.

--retry-for, --retry-attempts, --backoff-base and --backoff-max say how failures are
retried. They override pawl.yaml and programs until they are set to 0. Running workers
follow within two seconds, with the next failure of each message. The flags do not change
the rules of pipelines, and permanent failures are still not retried.`,
		Example: `  pawl topics set mail --order key --deadline 2m
  pawl topics set mail --park --retain 1d
  pawl topics set fetch --retry tail
  pawl topics set mail --max-waiting 100000
  pawl topics set mail --retry-for 3d --backoff-max 30m
  pawl topics set mail --retry-for 0 --backoff-max 0
  pawl topics set mail`,
		RunE: func(c *cobra.Command, args []string) error {
			find := part[store.Topics]
			if ownFlags(c) != "" {
				find = partOrMake[store.Topics]
			}
			topics, err := find(c.Context(), s, "set a topic")
			if err != nil {
				return err
			}
			if ownFlags(c) != "" {
				if err := s.notMoved(c.Context(), args[0], "set"); err != nil {
					return err
				}
			}
			r, err := s.setRetries(c, args[0], &f, true) // first see whether they are valid
			var t store.Topic
			if err == nil {
				t, err = s.setTopic(c, topics, args[0], &f)
			}
			if errors.Is(err, store.ErrNotFound) && r != (policy.Retries{}) {
				t, err = store.NewTopic(args[0]), nil // nothing but retries is set
			}
			if err == nil {
				r, err = s.setRetries(c, args[0], &f, s.dryRun)
			}
			if err != nil {
				return cannot(err, "set topic %s", args[0])
			}
			if !s.dryRun && ownFlags(c) != "" {
				if err := s.auditTopic(c, "set", args[0], ""); err != nil {
					return err
				}
			}
			return s.one(topicSettings{t.Name, t.Order, operate.FormSettings(&t), r}, func(w io.Writer) {
				fmt.Fprintf(w, "topic %s: order %s, deadline %v, ageing %v, park %v, retry %s, retain %v, max waiting %d%s, version %d\n",
					t.Name, t.Order, t.Deadline, t.Ageing, t.Park, t.RetriesAt(), t.Retain, t.MaxWaiting, retriesText(r),
					t.Version)
			})
		},
	}
	f.add(c.Flags())
	return c
}

// add declares the flags.
func (f *settingFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.order, "order", "", "key: messages with the same key in order; none: every message by itself")
	fl.Var(&f.deadline, "deadline", "how long a delivery may take at most")
	fl.Var(&f.ageing, "ageing", "the wait that is worth one point of priority")
	fl.BoolVar(&f.park, "park", false, "send what follows a dead letter of its key to the dead letters, too")
	fl.StringVar(&f.retry, "retry", "",
		"head: a retried message keeps the others of its key waiting; tail: it goes behind them")
	fl.Var(&f.retain, "retain", "how long to keep acked messages, for explain; 0s keeps none")
	fl.Int64Var(&f.maxWaiting, "max-waiting", 0,
		"how many messages may wait until appends are refused; 0 is no bound")
	fl.Var(&f.retryFor, "retry-for", "for how long a message is retried; 0 leaves it to the workers")
	fl.IntVar(&f.attempts, "retry-attempts", 0, "how often a message is tried; 0 leaves it to the workers")
	fl.Var(&f.base, "backoff-base", "the shortest wait before a retry; 0 leaves it to the workers")
	fl.Var(&f.max, "backoff-max", "the longest wait before a retry; 0 leaves it to the workers")
	fl.Int64Var(&f.version, "if-version", 0, "change only if the settings are at this version")
}

// setTopic declares a topic whose settings nobody has stated, and alters another.
func (s *session) setTopic(c *cobra.Command, topics store.Topics, name string, f *settingFlags) (store.Topic, error) {
	change := operate.TopicChange{
		Order:      given(c, "order", store.Order(f.order)),
		Deadline:   given(c, "deadline", time.Duration(f.deadline)),
		Ageing:     given(c, "ageing", time.Duration(f.ageing)),
		Park:       given(c, "park", f.park),
		Retry:      given(c, "retry", f.retry),
		Retain:     given(c, "retain", time.Duration(f.retain)),
		MaxWaiting: given(c, "max-waiting", f.maxWaiting),
		IfVersion:  given(c, "if-version", f.version),
	}
	return operate.SetTopic(c.Context(), topics, name, change, s.dryRun)
}

// given is the value of a flag; nil if it is not given.
func given[T any](c *cobra.Command, flag string, value T) *T {
	if !c.Flags().Changed(flag) {
		return nil
	}
	return &value
}

// setRetries changes what operators say about retries, if a flag does, and returns it.
func (s *session) setRetries(c *cobra.Command, topic string, f *settingFlags, dry bool) (policy.Retries, error) {
	change := operate.RetriesChange{
		For:      given(c, "retry-for", time.Duration(f.retryFor)),
		Attempts: given(c, "retry-attempts", f.attempts),
		Base:     given(c, "backoff-base", time.Duration(f.base)),
		Max:      given(c, "backoff-max", time.Duration(f.max)),
	}
	if change == (operate.RetriesChange{}) {
		kept, err := operate.Retries(c.Context(), s.opened, topic)
		return kept.Retries, err
	}
	return operate.SetRetries(c.Context(), s.opened, s.who(), topic, change, dry)
}

// retriesText is what operators say about retries, for a line of settings.
func retriesText(r policy.Retries) string {
	var text strings.Builder
	add := func(name string, set bool, value any) {
		if set {
			fmt.Fprintf(&text, ", %s %v", name, value)
		}
	}
	add("retry for", r.For > 0, r.For)
	add("retry attempts", r.Attempts > 0, r.Attempts)
	add("backoff base", r.Base > 0, r.Base)
	add("backoff max", r.Max > 0, r.Max)
	return text.String()
}

// removedTopic is what a removal removes, as JSON.
type removedTopic struct {
	Topic     string `json:"topic"`
	Cancelled int64  `json:"cancelled"` // messages
	Purged    int64  `json:"purged"`    // dead letters
}

func (s *session) topicsRm() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "rm TOPIC", Short: "Remove a topic", Args: count(1, 1, "one topic"),
		Long: `Removes a topic that is not used any more: settings, pause, figures, and the acked
messages that it retains. It is refused while a worker serves the topic or holds a message
of it, and while it has messages or dead letters, unless --force is given: then those are
removed, too, for good. It asks first, unless --yes is given; --dry-run prints the plan.

A message sent to the topic creates it again, with default settings. Unique keys that
outlive their message are remembered until they expire.`,
		Example: `  pawl topics set old --order none && pawl topics rm old --yes
  pawl topics rm mail --force --dry-run`,
		RunE: with(s, "remove a topic", func(c *cobra.Command, args []string, remover store.Topics) error {
			return s.removeTopic(c, remover, args[0], force)
		}),
	}
	c.Flags().BoolVar(&force, "force", false, "remove its messages and dead letters, too")
	return c
}

func (s *session) removeTopic(c *cobra.Command, remover store.Topics, name string, force bool) error {
	ctx := c.Context()
	if err := store.Need(s.opened, store.CanRemove, "remove topic"); err != nil {
		return cannot(err, "remove topic %s", name)
	}
	if err := s.notMoved(ctx, name, "remove"); err != nil {
		return err
	}
	st, err := s.unused(ctx, name, force)
	if err != nil {
		return err
	}
	r := &removedTopic{Topic: name, Cancelled: st.Waiting + st.Delayed, Purged: st.Dead + st.Resolved}
	say := func(what string) error {
		return s.one(r, func(w io.Writer) {
			fmt.Fprintf(w, "topic %s %s", oneLine(name), what)
			if r.Cancelled+r.Purged > 0 {
				fmt.Fprintf(w, ", with %s and %s", operate.Counted(r.Cancelled, "message"), operate.Counted(r.Purged, "dead letter"))
			}
			fmt.Fprintln(w)
		})
	}
	if s.dryRun {
		return say("would be removed")
	}
	if err := s.confirm("remove topic %s, %d messages and %d dead letters for good", name, r.Cancelled,
		r.Purged); err != nil {
		return err
	}
	r.Cancelled, r.Purged, err = s.clearTopic(ctx, name, r.Cancelled+r.Purged > 0)
	if err == nil {
		none := operate.RetriesChange{Attempts: new(int), For: new(time.Duration), Base: new(time.Duration),
			Max: new(time.Duration)}
		_, err = operate.SetRetries(ctx, s.opened, s.who(), name, none, false)
	}
	if err == nil || errors.Is(err, store.ErrUnsupported) {
		err = remover.RemoveTopic(ctx, name)
	}
	if err != nil && r.Cancelled+r.Purged == 0 {
		return cannot(err, "remove topic %s", name)
	}
	audited := s.auditTopic(c, "rm", name, fmt.Sprintf("%d messages, %d dead letters", r.Cancelled, r.Purged))
	if err != nil {
		return errors.Join(cannot(err, "remove topic %s: %d messages and %d dead letters of it are removed", name,
			r.Cancelled, r.Purged), audited)
	}
	return errors.Join(say("is removed"), audited)
}

// unused returns the figures of a topic, unless somebody works on it or something is in it
// that is not to be removed.
func (s *session) unused(ctx context.Context, name string, force bool) (*store.TopicStats, error) {
	topics, err := partOf[store.Topics](s.opened, "remove a topic")
	if err != nil {
		return nil, err
	}
	st, err := operate.Unused(ctx, s.opened, topics, name, force)
	return st, cannot(err, "remove topic %s", name)
}

// clearTopic removes all messages and dead letters of a topic, and returns how many.
func (s *session) clearTopic(ctx context.Context, name string, some bool) (cancelled, purged int64, err error) {
	if !some {
		return 0, 0, nil
	}
	inspector, err := partOf[store.Inspector](s.opened, "cancel messages", store.CanLookup)
	if err != nil {
		return 0, 0, err
	}
	letters, err := partOf[store.DeadLetters](s.opened, "discard dead letters")
	if err != nil {
		return 0, 0, err
	}
	all := liveFilter{topic: name}
	found, err := all.find(ctx, inspector, store.Filter{}, func(*store.Record) bool { return true })
	if err != nil {
		return 0, 0, err
	}
	n, refused, err := inChunks(ctx, s, idsOf(found), func(ctx context.Context,
		ids []string) (map[string]error, error) {
		return inspector.Cancel(ctx, ids...)
	})
	cancelled = int64(n - len(refused))
	if err != nil {
		return cancelled, 0, err
	}
	var dead []string
	for r, err := range letters.Dead(ctx, store.DeadFilter{Topic: name, Brief: true}) {
		if err != nil {
			return cancelled, 0, err
		}
		dead = append(dead, r.ID)
	}
	n, refused, err = inChunks(ctx, s, dead, func(ctx context.Context, ids []string) (map[string]error, error) {
		return letters.Purge(ctx, ids...)
	})
	return cancelled, int64(n - len(refused)), err
}
