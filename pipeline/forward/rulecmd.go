package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

func commands() []pipeline.Command {
	of := pipeline.Which()
	from := pipeline.Flag{Name: "from",
		Doc: "`CHAT` or CHAT/THREAD that the messages come from; a chat means all its topics"}
	change := []pipeline.Flag{
		of,
		{Name: "to", Type: pipeline.Texts, Doc: "`CHAT` or CHAT/THREAD that they go to; may be repeated"},
		{Name: "priority", Doc: "`LEVEL`: critical, high, vip, normal, bulk or a number from 0 to 100"},
		{Name: "mode", Doc: "`MODE`: forward, with the name of the author, or copy"},
		{Name: "filter", Type: pipeline.Texts,
			Doc: "`FILTER` text~REGEXP, media=KIND or from=USER_ID, with ! in front to exclude; may be repeated"},
		{Name: "replace", Type: pipeline.Texts, Doc: "`REGEXP=TEXT` in the text of copies; may be repeated"},
	}
	set := append(slices.Clone(change),
		pipeline.Flag{Name: "enabled", Type: pipeline.Bool, Doc: "let the rule work; --enabled=false stops it"},
		pipeline.Flag{Name: "enable", Type: pipeline.Texts,
			Doc: "`CHAT` that was disabled because it refused the bot, and may be tried again; may be repeated"})
	return []pipeline.Command{{
		Use: "forward", Short: "Forward Telegram messages with levels of service",
		Commands: []pipeline.Command{
			{Use: "rules", Short: "The rules: where messages go, and how urgent they are", Commands: []pipeline.Command{
				{Use: "ls", Short: "List the rules", Flags: []pipeline.Flag{of}, Run: listCommand,
					Effect: pipeline.Looks},
				{Use: "add", Short: "Add a rule for a source", Flags: append([]pipeline.Flag{from}, change...),
					Run: addCommand, Effect: pipeline.Changes,
					Example: "  pawl forward rules add --from -1001234 --to -1005678 --to -1009999/5 --priority vip --filter 'media=photo'"},
				{Use: "set ID", Short: "Change a rule", Flags: set, MinArgs: 1, MaxArgs: 1,
					Args: "the number of a rule", Run: setCommand, Effect: pipeline.Changes},
				{Use: "rm ID", Short: "Remove a rule", Flags: []pipeline.Flag{of}, MinArgs: 1, MaxArgs: 1,
					Args: "the number of a rule", Run: removeCommand, Effect: pipeline.Changes},
				{Use: "show ID", Short: "Show a rule", Flags: []pipeline.Flag{of}, MinArgs: 1, MaxArgs: 1,
					Args: "the number of a rule", Run: showCommand, Effect: pipeline.Looks},
				{Use: "test TEXT", Short: "Say what would happen to a message", Flags: []pipeline.Flag{of, from,
					{Name: "media", Default: "none", Type: pipeline.Choice, Choices: mediaKinds(),
						Doc: "`KIND` of the message"},
					{Name: "user", Type: pipeline.Int, Doc: "`USER_ID` of its author"}},
					MinArgs: 1, MaxArgs: 1, Args: "a text", Run: testCommand, Effect: pipeline.Looks},
			}},
			simCommand(),
		},
	}}
}

const seeHelp = "run it with --help for what it takes"

func wrong(what string, args ...any) error {
	return &pipeline.Error{Code: pipeline.ExitUsage, What: fmt.Sprintf(what, args...), Next: seeHelp}
}

// openRules are the rules of the pipeline that a command is about.
func openRules(ctx context.Context, in *pipeline.Invocation) (*rules, store.Store, error) {
	name := in.Flags.Text("pipeline") // its rules are in the store, whether the file has its section or not
	if name == "" {
		var err error
		if name, _, err = in.Chosen(Name); err != nil {
			return nil, nil, err
		}
	}
	s, err := in.Open(ctx, "", false)
	if err != nil {
		return nil, nil, err
	}
	state, ok := store.As[store.Shared](s)
	if !ok {
		return nil, nil, wrong("this store keeps no rules: it has no state")
	}
	r := newRules(state, name)
	return r, s, r.refresh(ctx)
}

func listCommand(ctx context.Context, in *pipeline.Invocation) error {
	r, _, err := openRules(ctx, in)
	if err != nil {
		return err
	}
	all := r.all()
	return in.Rows([]string{"ID", "SOURCE", "TARGETS", "PRIORITY", "MODE", "FILTERS", "ENABLED", "UPDATED BY"}, all,
		func(i int) []string {
			x := all[i]
			targets := places(x.Targets)
			if len(x.Disabled) > 0 {
				targets += " (off: " + places(x.Disabled) + ")"
			}
			return []string{strconv.FormatInt(x.ID, 10), x.Source.String(), targets,
				levelText(x.Priority), x.Mode,
				strings.Join(x.Filters, " "), strconv.FormatBool(x.Enabled), x.UpdatedBy}
		})
}

func show(in *pipeline.Invocation, rule *Rule) error {
	return in.Print(rule, "rule      %d\nsource    %s\ntargets   %s\npriority  %s\nmode      %s\nfilters   %s\n"+
		"replace   %s\nenabled   %t\ndisabled  %s\nupdated   %s by %s\n", rule.ID, rule.Source, places(rule.Targets),
		levelText(rule.Priority), rule.Mode, dash(rule.Filters), dash(rule.Replace), rule.Enabled,
		places(rule.Disabled), rule.UpdatedAt.UTC().Format(time.DateTime), rule.UpdatedBy)
}

func dash(texts []string) string {
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, "  ")
}

// apply changes a rule as the flags say.
func apply(in *pipeline.Invocation, rule *Rule) error {
	var errs []error
	fl := in.Flags
	if fl.Changed("to") {
		rule.Targets = []Place{}
		for _, t := range fl.Texts("to") {
			p, err := parsePlace(t)
			if errs = append(errs, err); err == nil && !slices.Contains(rule.Targets, p) {
				rule.Targets = append(rule.Targets, p)
			}
		}
		rule.Disabled = slices.DeleteFunc(rule.Disabled, func(p Place) bool {
			return !slices.Contains(rule.Targets, p)
		})
	}
	if fl.Changed("priority") {
		level, ok := parseLevel(fl.Text("priority"))
		if rule.Priority = level; !ok {
			errs = append(errs,
				fmt.Errorf("--priority is critical, high, vip, normal, bulk or a number from 0 to 100 (got %q)",
					fl.Text("priority")))
		}
	}
	if fl.Changed("mode") {
		rule.Mode = fl.Text("mode")
	}
	for name, texts := range map[string]*[]string{"filter": &rule.Filters, "replace": &rule.Replace} {
		if fl.Changed(name) {
			*texts = slices.DeleteFunc(slices.Clone(fl.Texts(name)), func(s string) bool { return s == "" })
		}
	}
	errs = append(errs, rule.prepare())
	if err := errors.Join(errs...); err != nil {
		return &pipeline.Error{Code: pipeline.ExitUsage, What: "the rule is not right", Err: err, Next: seeHelp}
	}
	return nil
}

func addCommand(ctx context.Context, in *pipeline.Invocation) error {
	from, err := parsePlace(in.Flags.Text("from"))
	if err != nil {
		return wrong("--from: %v", err)
	}
	if len(in.Flags.Texts("to")) == 0 {
		return wrong("--to is missing: where do the messages go?")
	}
	rule := Rule{Source: from, Targets: []Place{}, Filters: []string{}, Priority: normal, Mode: modeForward,
		Enabled: true}
	if err := apply(in, &rule); err != nil {
		return err
	}
	r, s, err := openRules(ctx, in)
	if err != nil {
		return err
	}
	if in.DryRun {
		return show(in, &rule)
	}
	made, err := r.add(ctx, rule, in.Who)
	if conflict(err) {
		return &pipeline.Error{Code: pipeline.ExitConflict, What: fmt.Sprintf("source %s has a rule already", from),
			Next: "change it with `pawl forward rules set ID`"}
	}
	if err != nil {
		return err
	}
	return errors.Join(show(in, made), audit(ctx, in, s, r, "forward.rules.add", made, "added: "+summary(made)))
}

// summary is a rule in one line, for the audit.
func summary(r *Rule) string {
	return fmt.Sprintf("to %s, priority %d, mode %s, filters %s, replace %s, enabled %t, disabled targets %s",
		places(r.Targets), r.Priority, r.Mode, dash(r.Filters), dash(r.Replace), r.Enabled, places(r.Disabled))
}

func audit(ctx context.Context, in *pipeline.Invocation, s store.Store, r *rules, action string, rule *Rule,
	change string) error {
	return in.Audit(ctx, s, action, fmt.Sprintf("%s rule %d (%s)", r.name, rule.ID, rule.Source), 1, change)
}

// named is the rule that the first argument names.
func named(ctx context.Context, in *pipeline.Invocation) (*rules, store.Store, *Rule, error) {
	id, err := ruleNumber(in.Args[0])
	if err != nil {
		return nil, nil, nil, wrong("%v", err)
	}
	r, s, err := openRules(ctx, in)
	if err != nil {
		return nil, nil, nil, err
	}
	rule, err := r.byID(id)
	if err != nil {
		return nil, nil, nil, gone(id)
	}
	return r, s, rule, nil
}

func gone(id int64) error {
	return &pipeline.Error{Code: pipeline.ExitNotFound, What: fmt.Sprintf("there is no rule %d", id),
		Next: "run `pawl forward rules ls`"}
}

// ruleNumber reads the number of a rule.
func ruleNumber(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%q is not the number of a rule", s)
	}
	return n, nil
}

func setCommand(ctx context.Context, in *pipeline.Invocation) error {
	var enable []Place
	for _, t := range in.Flags.Texts("enable") {
		p, err := parsePlace(t)
		if err != nil {
			return wrong("--enable: %v", err)
		}
		enable = append(enable, p)
	}
	// what is wrong by itself is refused before a store is opened
	if err := apply(in, &Rule{Mode: modeCopy}); err != nil {
		return err
	}
	r, s, rule, err := named(ctx, in)
	if err != nil {
		return err
	}
	change := func(n *Rule) error {
		if in.Flags.Changed("enabled") {
			n.Enabled = in.Flags.Bool("enabled")
		}
		n.Disabled = slices.DeleteFunc(n.Disabled, func(p Place) bool { return slices.Contains(enable, p) })
		return apply(in, n)
	}
	if in.DryRun {
		next := rule.clone()
		return errors.Join(change(next), show(in, next))
	}
	old, now, err := r.change(ctx, rule.ID, in.Who, change)
	if errors.Is(err, errNoRule) {
		return gone(rule.ID)
	}
	if err != nil {
		return err
	}
	return errors.Join(show(in, now), audit(ctx, in, s, r, "forward.rules.set", now, summary(old)+" -> "+summary(now)))
}

func removeCommand(ctx context.Context, in *pipeline.Invocation) error {
	r, s, rule, err := named(ctx, in)
	if err != nil {
		return err
	}
	if in.DryRun {
		return show(in, rule)
	}
	if err := in.Confirm(fmt.Sprintf("remove rule %d, %s to %s", rule.ID, rule.Source,
		places(rule.Targets))); err != nil {
		return err
	}
	old, err := r.remove(ctx, rule.ID, in.Who)
	if errors.Is(err, errNoRule) {
		return gone(rule.ID)
	}
	if err != nil {
		return err
	}
	return errors.Join(show(in, old), audit(ctx, in, s, r, "forward.rules.rm", old, "removed: "+summary(old)))
}

func showCommand(ctx context.Context, in *pipeline.Invocation) error {
	_, _, rule, err := named(ctx, in)
	if err != nil {
		return err
	}
	return show(in, rule)
}

// outcome is what would happen to a message.
type outcome struct {
	Rule     *int64  `json:"rule"`
	Why      string  `json:"why"`
	Targets  []Place `json:"targets"`
	Priority int     `json:"priority"`
	Mode     string  `json:"mode"`
	Text     string  `json:"text"`
}

func testCommand(ctx context.Context, in *pipeline.Invocation) error {
	from, err := parsePlace(in.Flags.Text("from"))
	if err != nil {
		return wrong("--from: %v", err)
	}
	r, _, err := openRules(ctx, in)
	if err != nil {
		return err
	}
	var m message
	_ = json.Unmarshal(fmt.Appendf(nil, `{%q: {}}`, in.Flags.Text("media")), &m) // the choices are names of members
	m.Text, m.From, m.Chat.ID = in.Args[0], &user{ID: in.Flags.Int("user")}, from.Chat
	o := judge(r.of(from), &m)
	return in.Print(o, "%s\n", o.Why)
}

// judge says what a rule, which may be nil, does with a message.
func judge(rule *Rule, m *message) outcome {
	o := outcome{Targets: []Place{}, Text: m.words()}
	if rule == nil {
		o.Why = "not sent: the chat has no rule"
		return o
	}
	o.Rule, o.Priority, o.Mode = &rule.ID, rule.Priority, rule.Mode
	if !rule.Enabled {
		o.Why = fmt.Sprintf("not sent: rule %d is stopped", rule.ID)
		return o
	}
	if stopped, ok := rule.filters.pass(m); !ok {
		o.Why = fmt.Sprintf("not sent: the filter %s of rule %d", stopped, rule.ID)
		return o
	}
	for _, t := range rule.Targets {
		if !rule.off(t) {
			o.Targets = append(o.Targets, t)
		}
	}
	changed := false
	if rule.Mode == modeCopy {
		o.Text, changed = rewrite(rule.replace, o.Text)
	}
	o.Why = fmt.Sprintf("rule %d: %s to %s, priority %s", rule.ID, rule.Mode, places(o.Targets),
		levelText(rule.Priority))
	switch {
	case len(o.Targets) == 0:
		o.Why = fmt.Sprintf("not sent: rule %d has no target that takes it", rule.ID)
	case changed && strings.TrimSpace(o.Text) == "" && m.Text != "" && m.media() == "none":
		o.Why = fmt.Sprintf("not sent: what rule %d replaces leaves nothing of the text", rule.ID)
	}
	return o
}
