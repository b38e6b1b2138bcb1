// Package forward is the pipeline that forwards Telegram messages from chats to other chats, with levels of service.
//
// Updates are stored before they are confirmed to Telegram. The stage updates matches them with rules, or carries
// out their commands, and emits a job for each target; the stage send calls Telegram within its limits. Priority and
// ageing are those of the runtime, as for any topic.
package forward

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// Name is the kind of these pipelines in the configuration.
const Name = "forward"

// How updates come.
const (
	updatesPoll    = "poll"
	updatesWebhook = "webhook"
)

// Kind is the kind of these pipelines.
func Kind() pipeline.Kind {
	return pipeline.Kind{
		Name: Name, Summary: "Telegram messages from chats to other chats, with levels of service",
		Fields: fields(), Rules: policyRules(), Check: check, New: build, Doctor: doctor, Commands: commands(),
	}
}

func fields() []pipeline.Field {
	return []pipeline.Field{
		{Name: "token", Secret: true, Required: true, Doc: "The token of the bot.",
			Check: pipeline.CheckForm(`-?[0-9]{1,18}:[^/?#% ]+`, "must look like 123456:ABC-DEF, as BotFather gave it")},
		{Name: "api_url", Type: pipeline.URL, Default: "https://api.telegram.org", Doc: "Where the Bot API is.",
			Check: pipeline.CheckBase},
		{Name: "updates", Type: pipeline.Choice, Choices: []string{updatesPoll, updatesWebhook}, Default: updatesPoll,
			Doc: "How updates come."},
		{Name: "listen",
			Doc:   "The address of the webhook, such as 127.0.0.1:8443. Put a proxy with HTTPS in front of it.",
			Check: pipeline.CheckAddress},
		{Name: "path", Default: "/telegram", Doc: "The path of the webhook.", Check: pipeline.CheckPath},
		{Name: "secret_token", Secret: true, Doc: "The secret that Telegram sends with each call of the webhook.",
			Check: pipeline.CheckForm(`[A-Za-z0-9_-]{1,256}`, "must be 1 to 256 of A-Z a-z 0-9 _ -")},
		{Name: "webhook_url", Type: pipeline.URL, DefaultDoc: "the operator tells Telegram",
			Doc: "What Telegram is told to call.", Check: pipeline.CheckHTTP},
		{Name: "admins", Type: pipeline.Texts,
			Doc:   "Users who may use the commands everywhere, by number. The first one is told about targets that refuse the bot.",
			Check: pipeline.CheckForm(`-?[0-9]{1,18}`, "must be numbers of users; the bot @userinfobot tells one's own")},
		{Name: "command_prefix",
			Doc:   "The prefix of all commands, such as fw_: then /fw_vip is a command, and /vip is not.",
			Check: pipeline.CheckForm(`[a-z0-9_]{0,16}`, "must be at most 16 of a-z 0-9 _, as Telegram requires of commands")},
		{Name: "limits", Type: pipeline.Object, Short: "mode",
			Doc: "How much Telegram accepts. `limits: off` is for your own server.", Fields: []pipeline.Field{
				{Name: "all", Type: pipeline.Rate, Default: "30/s", Doc: "Messages to all chats together."},
				{Name: "chat", Type: pipeline.Rate, Default: "1/s", Doc: "Messages to one chat."},
				{Name: "group", Type: pipeline.Rate, Default: "20/m", Doc: "Messages to one group or channel."},
				{Name: "mode", Type: pipeline.Choice, Choices: []string{"on", "off"}, Default: "on",
					Doc: "Whether there are limits."},
			}},
		{Name: "concurrency", Type: pipeline.Int, Default: "16", Min: 1, Max: 1000, Doc: "Calls of Telegram at once."},
		{Name: "reserved", Type: pipeline.Int, Default: "2", Min: 0, Max: 100,
			Doc: "Of these, those that only messages of priority 100 use."},
		{Name: "ageing", Type: pipeline.Duration, Default: "2m", Min: int64(time.Second),
			Doc: "The wait that is worth one point of priority."},
	}
}

func check(_ string, s pipeline.Section) []pipeline.Fault {
	var faults []pipeline.Fault
	if s.Int("reserved") >= s.Int("concurrency") {
		faults = append(faults, pipeline.Fault{Path: "reserved",
			Why: "must be less than concurrency, or nothing else is sent"})
	}
	if s.Text("updates") != updatesWebhook {
		return faults
	}
	for _, key := range []string{"listen", "secret_token"} {
		if s.Text(key) == "" {
			faults = append(faults, pipeline.Fault{Path: "updates", Why: "webhook needs " + key,
				Hint: "add " + key + ": …"})
		}
	}
	return faults
}

// build makes a pipeline of a section.
func build(ctx context.Context, env pipeline.Env) (*pipeline.Pipeline, error) {
	s := env.Section
	f := &forwarder{
		env: env, api: newClient(s.Text("api_url"), s.Text("token")), prefix: s.Text("command_prefix"),
		moved: map[int64]int64{}, ranks: store.Topic{Ageing: s.Duration("ageing")},
		pacer: newPacer(limitsOf(s.Section("limits"))),
	}
	var err error
	if f.gate, err = dispatch.NewLimiter(dispatch.LimitConfig{Name: env.Name + ".leader", Size: f.gateSize}); err != nil {
		return nil, err
	}
	var missing []string
	pipeline.Need(env.Store, &f.state, "state", &missing)
	pipeline.Need(env.Store, &f.marks, "marks", &missing, store.CanMarks)
	pipeline.Need(env.Store, &f.looker, "listings", &missing)
	needs := []store.Capability{store.CanState, store.CanMarks, store.CanUnique, store.CanEmitAtomic, store.CanPriority,
		store.CanDelay, store.CanLookup}
	if missing != nil {
		return &pipeline.Pipeline{Needs: needs}, nil // the host reports what is missing
	}
	f.rules = newRules(f.state, env.Name)
	for _, a := range s.Texts("admins") {
		id, _ := strconv.ParseInt(a, 10, 64)
		f.admins = append(f.admins, id)
	}
	f.figs.pollErrors.Add(0, env.Name) // an alert sees the first one, too, if it counts from zero
	f.leader = &leader{
		state: f.state, key: "forward/" + env.Name + "/leader", owner: env.Owner, logger: env.Logger,
		pauses: f.pacer.pauses,
		began:  f.beginToLead, ended: func() { f.openGate(false); f.pacer.stop(callWait) },
	}
	once, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	me, err := f.api.me(once)
	switch {
	case err == nil:
		f.met(me)
		if !me.ReadsAll {
			env.Logger.Warn(
				"the bot's privacy mode is on: in groups where it is not an administrator it sees commands only; BotFather's /setprivacy changes that")
		}
	case refusedToken(err):
		return nil, &pipeline.Error{Code: pipeline.ExitUsage, What: "the token is refused", Err: err,
			Next: "correct token in the section pipelines." + env.Name}
	default:
		env.Logger.Warn("Telegram does not say who the bot is yet", "error", err)
	}
	return &pipeline.Pipeline{
		Stages: f.stages(), Needs: needs, Run: f.run, Health: f.health, Metrics: f.metrics(),
	}, nil
}

func limitsOf(s pipeline.Section) limits {
	return limits{off: s.Text("mode") == "off", all: limitOf(s.Number("all")), chat: limitOf(s.Number("chat")),
		group: limitOf(s.Number("group"))}
}

// beginToLead opens the gate, and keeps to the pauses that the leader before knew of.
func (f *forwarder) beginToLead(r *leadRecord, now time.Time) {
	here, pauses := time.Now(), map[int64]time.Time{}
	for chat, until := range r.Pauses {
		pauses[chat] = here.Add(time.UnixMilli(until).Sub(now))
	}
	f.pacer.start(here, pauses)
	f.openGate(true)
}

// openGate opens or closes the gate: a process that does not lead claims nothing that is to be sent.
func (f *forwarder) openGate(open bool) {
	f.open.Store(open)
	_ = f.gate.Set(0, 0, 0) // it has no numbers; this wakes those who wait for it
}

// gateSize is how many messages may be sent at once: any number, or none.
func (f *forwarder) gateSize() float64 {
	if f.open.Load() {
		return 1e6
	}
	return 0
}

func (f *forwarder) stages() []pipeline.Stage {
	settings := store.Declaration{Order: store.OrderKey, Ageing: f.env.Section.Duration("ageing")}
	decode := func(b []byte, v *update) error { return json.Unmarshal(b, v) }
	return []pipeline.Stage{
		{Topic: dispatch.Topic{
			Name: f.env.Topic(stageUpdates), Settings: settings, Concurrency: updateSlots, Lease: lease,
			Emits:   []string{f.env.Topic(stageSend)},
			Event:   policy.Event{Type: "Forward"},
			Handler: pawl.Typed(decode, f.handleUpdate),
		}},
		{Topic: dispatch.Topic{
			Name: f.env.Topic(stageSend), Settings: settings, Lease: lease, Limits: []*dispatch.Limiter{f.gate},
			Event:       policy.Event{Type: "Forward"},
			Concurrency: int(f.env.Section.Int("concurrency")), Reserved: int(f.env.Section.Int("reserved")),
			Handler: pawl.Typed(func(b []byte, v *job) error { return json.Unmarshal(b, v) }, f.handleSend),
		}},
	}
}

// updateSlots is how many updates are matched at once: only commands call Telegram there.
const updateSlots = 16

// callWait is how long a leader that stops waits for its last calls before another one may send.
const callWait = 3 * time.Second

// doctor asks Telegram about the bot, and looks for targets that were switched off.
func doctor(ctx context.Context, env pipeline.Env) []pipeline.Finding {
	me, err := newClient(env.Section.Text("api_url"), env.Section.Text("token")).me(ctx)
	if err != nil {
		return []pipeline.Finding{{Problem: "Telegram does not accept the bot: " + err.Error(),
			Next: "check token and api_url in pipelines." + env.Name}}
	}
	var found []pipeline.Finding
	if !me.ReadsAll {
		found = append(found, pipeline.Finding{Warning: true,
			Problem: "the bot's privacy mode is on: in groups it sees commands only",
			Next:    "send /setprivacy to BotFather, or make the bot an administrator of its sources"})
	}
	state, ok := store.As[store.Shared](env.Store)
	if !ok {
		return found
	}
	rules := newRules(state, env.Name)
	if err := rules.refresh(ctx); err != nil {
		return append(found, pipeline.Finding{Problem: fmt.Sprintf("the rules cannot be read: %v", err),
			Next: "run `pawl forward rules ls`"})
	}
	for _, r := range rules.all() {
		for _, p := range r.Disabled {
			found = append(found, pipeline.Finding{Warning: true,
				Problem: fmt.Sprintf("target %s of rule %d is disabled: it refused the bot", p, r.ID),
				Next:    fmt.Sprintf("let the bot in, then `pawl forward rules set %d --enable %s`", r.ID, p)})
		}
	}
	return found
}

// lease is how long the work of a process that died waits: about as long as another one takes to lead.
const lease = 10 * time.Second
