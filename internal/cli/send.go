package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/cli/flag"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/lines"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/send"
	"github.com/pawl-dev/pawl/internal/wire"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// sendFlags are the flags of send.
type sendFlags struct {
	id, key, unique, uniqueScope string
	uniqueFor                    string
	priority, attempts           int
	delay                        flag.Delay
	retryFor, timeout            flag.Duration
	at                           flag.Point
	headers                      flag.Facts
	file                         string
	lines, receipts, skipBad     bool
}

func (s *session) send() *cobra.Command {
	f := sendFlags{retryFor: -1, timeout: -1} // not given
	c := &cobra.Command{
		Use: "send TOPIC [BODY]", Short: "Append a message, or many",
		Long: `Appends a message to a topic and prints its id. When it returns, the message is
durably stored. The body is an argument, a file, or standard input, which is read if
neither of the others is given; '' is an empty body. If the store does not answer, at first
or later, or is locked, it is retried for five minutes; ^C ends that, and nothing is
stored twice. Then the exit code is 75.

With --jsonl, standard input has a message a line:

  {"topic","id","key","priority","body" | "body_base64","headers","not_before" | "delay_seconds",
   "retry_for_seconds","attempts","timeout_seconds","unique_key","unique_for_seconds"}

All fields are optional; lines without a topic go to TOPIC. A negative delay counts as 0, a
time that is past as now. Lines are appended in batches, in their order, and every line
that is counted is stored. It ends with {"appended":N,"duplicates":M}. At a line that is
not a message, or that the store refuses, it stops, with everything before that line stored
and nothing after it; if only the brokers of Kafka refuse it, later lines of the batch that
are stored are named. With --skip-bad it continues, and ends with exit code 3. With
--receipts every line is answered as soon as it is durable, or refused, before that count:

  {"line":1,"id":"…"}   {"line":2,"id":"…","duplicate_of":"…"}   {"line":3,"error":"…"}`,
		Example: `  pawl send mail "hello"
  pawl send mail --key customer-7 --priority 50 --header trace=abc "for customer 7"
  pawl send mail --delay 10m "not yet"
  echo "from a pipe" | pawl send mail -
  pawl send mail --unique order-4711 "once"
  printf '%s\n' '{"body":"one"}' '{"key":"k","body":"two"}' | pawl send mail --jsonl`,
		Args: count(0, 2, "a topic and a body"),
		RunE: func(c *cobra.Command, args []string) error {
			if f.lines {
				return s.sendLines(c, args, &f)
			}
			return s.sendOne(c.Context(), args, &f)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.id, "id", "", "the message's `ID` (default: a new one)")
	fl.StringVar(&f.key, "key", "", "messages with the same `KEY` are processed one at a time, in order")
	fl.IntVar(&f.priority, "priority", 0, "from 0 to 100; waiting counts like priority")
	fl.Var(&f.delay, "delay", "deliver it no sooner than this long from now")
	fl.Var(&f.at, "at", "deliver it no sooner than at this time")
	fl.Var(&f.retryFor, "retry-for", "for how long its failures are retried (default: what the topic says)")
	fl.IntVar(&f.attempts, "attempts", 0, "how many attempts it has (default: what the topic says)")
	fl.Var(&f.timeout, "timeout", "how long an attempt may take, within the topic's deadline")
	fl.StringVar(&f.unique, "unique", "", "store it only if no message with this `KEY` exists")
	fl.StringVar(&f.uniqueFor, "unique-for", "",
		"for how long the key is taken: a duration, forever, or until-claimed: until a worker has it (default: while the message lives)")
	fl.StringVar(&f.uniqueScope, "unique-scope", "", "within which the key is unique (default: the topic)")
	fl.Var(&f.headers, "header", "a header, as `NAME=VALUE`; can be repeated")
	fl.StringVar(&f.file, "file", "", "read the body from `FILE`")
	fl.BoolVar(&f.lines, "jsonl", false, "read messages from standard input, one JSON object per line")
	fl.BoolVar(&f.receipts, "receipts", false, "with --jsonl: answer each line when it is durable, with a line of JSON")
	fl.BoolVar(&f.skipBad, "skip-bad", false, "with --jsonl: go on after a line that is not a message")
	return c
}

// sendOne appends one message.
func (s *session) sendOne(ctx context.Context, args []string, f *sendFlags) error {
	if len(args) == 0 {
		return usage("run `pawl send --help` for examples", "a topic is needed")
	}
	if f.skipBad || f.receipts {
		return usage("leave it out, or add --jsonl", "--skip-bad and --receipts need --jsonl")
	}
	m, err := f.message(args[0])
	if err != nil {
		return err
	}
	if m.Body, err = s.body(args[1:], f); err != nil {
		return err
	}
	if err := m.Validate(); err != nil {
		return cannot(err, "send this message")
	}
	if s.dryRun {
		s.note("would append a message of %d bytes to topic %s", m.Size(), m.Topic)
		if s.output == formatTable {
			return nil
		}
		return s.one(dryReceipt{DryRun: true, ID: m.ID, Topic: m.Topic, Bytes: m.Size()}, nil)
	}
	opened, err := s.openPatiently(ctx)
	if err != nil {
		return err
	}
	if m.Priority > 0 && !open.Ranks(s.url()) {
		s.note("this store hands messages out in the order of its log: --priority changes nothing")
	}
	s.tellNewTopic(ctx, opened, m.Topic)
	receipts, err := send.Append(ctx, opened, store.NewBatch(m), s.trouble)
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		return cannot(err, "append to topic %s", m.Topic)
	}
	return s.receipt(m.Topic, receipts[0])
}

// receiptInfo is the JSON of `pawl send`.
type receiptInfo struct {
	ID          string  `json:"id"`
	Topic       string  `json:"topic"`
	Appended    bool    `json:"appended"`
	DuplicateOf *string `json:"duplicate_of"`
}

// dryReceipt is what would be appended; an id that is not given is not known before.
type dryReceipt struct {
	DryRun bool   `json:"dry_run"`
	ID     string `json:"id,omitempty"`
	Topic  string `json:"topic"`
	Bytes  int    `json:"bytes"`
}

// receipt prints the id of the message that is stored.
func (s *session) receipt(topic string, r store.Receipt) error {
	info := receiptInfo{ID: r.ID, Topic: topic, Appended: true}
	id := r.ID
	if r.DuplicateOf != "" {
		id, info.Appended, info.DuplicateOf = r.DuplicateOf, false, &r.DuplicateOf
		info.ID = id // the other one was never stored
		s.note("nothing was appended: %s exists already", id)
	}
	return notPrinted(s.one(info, func(w io.Writer) { fmt.Fprintln(w, id) }), "message "+id+" is stored",
		"do not send it again; `pawl messages show "+operate.Operands(id)+"` shows it")
}

// notPrinted is the error for output that is lost after the work was done: mistaken for
// a failure, it would cause a repetition.
func notPrinted(err error, done, next string) error {
	if err == nil {
		return nil
	}
	return &problem{code: exitPartly, what: done + "; only the output cannot be written", err: err, next: next}
}

// tellNewTopic says that a topic is not there yet and has nearly the name of another: it may be misspelt.
func (s *session) tellNewTopic(ctx context.Context, opened store.Store, topic string) {
	topics, ok := store.As[store.Topics](opened)
	if !ok || s.quiet {
		return
	}
	if _, err := topics.Topic(ctx, topic); !errors.Is(err, store.ErrNotFound) {
		return
	}
	stats, _ := topics.Stats(ctx)
	var names []string
	for i := range stats {
		names = append(names, stats[i].Name)
	}
	if near := config.Near(topic, names); near != "" {
		s.note("topic %s is new; did you mean %s?", topic, near)
	}
}

func (s *session) trouble(err error) {
	if _, next := classify(err); err.Error() != s.troubled { // once, and not every few seconds of an outage
		s.troubled = err.Error()
		s.note("%s; trying again for up to five minutes\n  next: %s", s.troubled, s.here(next))
	}
}

// keyOf is the key of a flag; nil for none.
func keyOf(flag string) []byte {
	if flag == "" {
		return nil
	}
	return []byte(flag)
}

// message is the message that the flags describe, without its body.
func (f *sendFlags) message(topic string) (pawl.Message, error) {
	m := pawl.Message{Topic: topic, ID: f.id, Key: keyOf(f.key), Priority: f.priority,
		Delay: time.Duration(f.delay.Duration), Headers: f.headers}
	if !f.at.IsZero() {
		if f.delay.Duration != 0 {
			return m, usage("give one of them", "--delay and --at cannot be combined")
		}
		if m.Delay = max(0, time.Until(f.at.Time)); m.Delay > pawl.MaxDelay {
			return m, usage("give a time within ten years", "--at: the time is too far ahead")
		}
	}
	if f.retryFor == 0 || f.timeout == 0 {
		return m, usage("leave it out for what the topic says", "--retry-for and --timeout are more than 0")
	}
	if f.retryFor > 0 {
		m.RetryFor(time.Duration(f.retryFor))
	}
	if f.attempts != 0 {
		m.RetryUpTo(f.attempts)
	}
	if f.timeout > 0 {
		m.LimitTime(time.Duration(f.timeout))
	}
	m.Unique = pawl.Unique{Key: f.unique, Scope: f.uniqueScope}
	switch f.uniqueFor {
	case "":
	case "forever":
		m.Unique.For = pawl.Forever
	case "until-claimed":
		m.Unique.For = pawl.UntilClaimed
	default:
		d, err := wire.ParseDuration(f.uniqueFor)
		if err != nil {
			return m, usage("such as --unique-for 24h, or --unique-for forever", "--unique-for: %w", err)
		}
		m.Unique.For = d
	}
	return m, nil
}

// body reads the body from where it is said to be.
func (s *session) body(args []string, f *sendFlags) ([]byte, error) {
	switch {
	case len(args) > 0 && f.file != "":
		return nil, usage("give one of them", "a body and --file cannot be combined")
	case f.file != "":
		file, err := os.Open(f.file)
		if err != nil {
			return nil, &problem{code: exitUsage, what: "cannot read the body", err: err, next: "correct --file"}
		}
		defer func() { _ = file.Close() }()
		if info, err := file.Stat(); err == nil && info.IsDir() {
			return nil, usage("name a file in it", "--file %s is a folder", f.file)
		}
		return readBody(file)
	case len(args) == 0 && s.InTerminal:
		return nil, usage("give it as an argument, with --file, or on standard input; '' is an empty one",
			"the message has no body")
	case len(args) == 0, args[0] == "-":
		return readBody(s.In)
	}
	return []byte(args[0]), nil
}

// readBody reads no more than a body can be long, and a byte, to see that it is longer.
func readBody(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, pawl.MaxBody+1))
	if len(b) > pawl.MaxBody {
		return nil, usage("store it elsewhere, and send its location",
			"the body is longer than %d bytes, the most that a message can have", pawl.MaxBody)
	}
	return b, cannot(err, "read the body")
}

// sendLines appends what standard input has.
func (s *session) sendLines(c *cobra.Command, args []string, f *sendFlags) error {
	for _, name := range []string{"id", "key", "priority", "delay", "at", "retry-for", "unique", "unique-for", "unique-scope",
		"header", "file"} {
		if c.Flags().Changed(name) {
			return usage("leave out --"+name+"; every line has its own",
				"--%s cannot be combined with --jsonl", name)
		}
	}
	if len(args) > 1 {
		return usage("leave out the body", "with --jsonl the bodies come from standard input")
	}
	sender := send.Lines{Trouble: s.trouble}
	if len(args) == 1 {
		sender.Topic = args[0]
		if err := pawl.ValidTopic(sender.Topic); err != nil {
			return cannot(err, "send")
		}
	}
	if f.skipBad {
		sender.Bad = func(e *lines.Error) bool { s.note("skipped %v", e); return true }
	}
	if !s.dryRun {
		opened, err := s.openPatiently(c.Context())
		if err != nil {
			return err
		}
		sender.Store = opened
	}
	if f.receipts {
		sender.Receipt = s.answerLine
	}
	p := s.progress("lines")
	sender.Progress = func(sent send.Sent) { p.At(sent.Through) }
	sent, err := sender.Run(c.Context(), s.In)
	p.End()
	return errors.Join(s.sent(sent, err), s.printSent(sent))
}

// openPatiently opens the store, and waits for one that does not answer as long as later ones of its calls would.
func (s *session) openPatiently(ctx context.Context) (store.Store, error) {
	return send.Again(ctx, s.trouble, func() (store.Store, error) { return s.openOrMake(ctx) })
}

// lineReceipt answers a line, as JSON.
type lineReceipt struct {
	Line        int64  `json:"line"`
	ID          string `json:"id,omitempty"`
	DuplicateOf string `json:"duplicate_of,omitempty"`
	Error       string `json:"error,omitempty"`
}

// answerLine prints the answer to a line at once. What cannot be printed is found when the count is.
func (s *session) answerLine(line int64, r store.Receipt) {
	a := lineReceipt{Line: line, ID: r.ID, DuplicateOf: r.DuplicateOf}
	if r.Err != nil {
		a.Error = s.redactor.Redact(r.Err.Error())
	}
	if b, err := marshal(a, ""); err == nil {
		_, _ = s.out.Write(b)
		_ = s.out.Flush()
	}
}

// drySent is what would be appended; what is there already is not looked for.
type drySent struct {
	DryRun bool `json:"dry_run"`
	send.Sent
}

// printSent prints the count, on one line whatever the format.
func (s *session) printSent(sent send.Sent) error {
	var info any = sent
	if s.dryRun {
		info = drySent{DryRun: true, Sent: sent}
	}
	b, err := marshal(info, "")
	if err == nil {
		_, err = s.out.Write(b)
	}
	done := fmt.Sprintf("what could be sent is stored: %d appended, %d duplicates", sent.Appended, sent.Duplicates)
	err = errors.Join(err, s.out.Flush())
	if s.dryRun {
		return err
	}
	return notPrinted(err, done, "do not send it again")
}

// sent says how a stream of lines ended.
func (s *session) sent(sent send.Sent, err error) error {
	stored := s.storedLines(sent)
	if bad, ok := errors.AsType[*lines.Error](err); ok {
		if len(sent.Refused) > 0 {
			return &problem{
				code: exitUsage, what: fmt.Sprintf("the store refused line %s; %s", lineNumbers(sent.Refused), stored),
				err: bad.Err,
				next: fmt.Sprintf(
					"correct what was refused and send it, then all from line %d on; --skip-bad goes on by itself",
					sent.Through+1),
			}
		}
		wrong := "is not a message"
		if _, refused := errors.AsType[*store.Error](bad.Err); refused {
			wrong = "is refused by the store"
		}
		return &problem{
			code: exitUsage, what: fmt.Sprintf("line %d %s; %s", bad.Line, wrong, stored), err: bad.Err,
			next: fmt.Sprintf("correct it and send from line %d on, or add --skip-bad", bad.Line),
		}
	}
	code := exitUnfinished
	if errors.Is(err, store.ErrUnavailable) {
		code = exitTryAgain
	}
	switch {
	case err != nil:
		return &problem{
			code: code, what: "not everything was sent; " + stored, err: err,
			next: fmt.Sprintf("send again from line %d on; with ids or unique keys nothing is stored twice",
				sent.Through+1),
		}
	case sent.Skipped > 0:
		return &problem{
			code: exitPartly, what: operate.Counted(sent.Skipped, "line was", "lines were") + " skipped",
			err:  errors.New("they are not messages, or the store refuses them; see above"),
			next: "correct these lines and send them",
		}
	}
	return nil
}

// storedLines says which lines are stored.
func (s *session) storedLines(sent send.Sent) string {
	switch {
	case s.dryRun:
		return "nothing was stored, this was a dry run"
	case len(sent.Refused) > 0:
		return fmt.Sprintf("all others up to line %d are stored, none after it", sent.Through)
	case sent.Through > 0 && sent.Doubt:
		return fmt.Sprintf("all lines up to %d are stored, and perhaps some after it", sent.Through)
	case sent.Through > 0:
		return fmt.Sprintf("all lines up to %d are stored, none after it", sent.Through)
	case sent.Doubt:
		return "some lines may be stored"
	}
	return "nothing was stored"
}

// lineNumbers names the first of many lines.
func lineNumbers(lines []int64) string {
	const named = 5
	var names []string
	for _, n := range lines[:min(len(lines), named)] {
		names = append(names, fmt.Sprint(n))
	}
	text := strings.Join(names, ", ")
	if more := len(lines) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
