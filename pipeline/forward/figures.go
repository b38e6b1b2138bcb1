package forward

import (
	"time"

	"github.com/pawl-dev/pawl/observe"
)

// figures are the metrics of a pipeline, with its name as their first label.
type figures struct {
	updates, filtered, commands           observe.Counter
	messages, throttled, unknown, blocked observe.Counter
	pollErrors, webhookRefused            observe.Counter
	wait, answers                         observe.Durations
}

// sent counts what was sent.
func (f *figures) sent(name string, j *job, priority int, wait time.Duration) {
	c := class(priority)
	if j.Do == doAnswer {
		if j.Came > 0 {
			f.answers.Observe(time.Since(time.UnixMilli(j.Came)), name, c)
		}
		return
	}
	f.wait.Observe(wait, name, c)
	f.messages.Add(float64(len(j.IDs)), name, c, j.Do)
}

func (f *forwarder) metrics() []observe.Metric {
	g, one := &f.figs, []string{"pipeline"}
	return []observe.Metric{
		{Name: "forward_updates_total", Help: "Updates that came from Telegram and were stored.", Labels: one,
			Counter: &g.updates},
		{Name: "forward_filtered_total", Help: "Messages that a filter of their rule stopped.", Labels: one,
			Counter: &g.filtered},
		{Name: "forward_commands_total", Help: "Commands that were answered.", Labels: []string{"pipeline", "command"},
			Counter: &g.commands},
		{Name: "forward_messages_total",
			Help:   "Messages that were sent or edited, by class of priority. An album counts its parts.",
			Labels: []string{"pipeline", "class", "do"}, Counter: &g.messages},
		{Name: "forward_wait_seconds", Help: "From stored to sent, by class of priority.",
			Labels: []string{"pipeline", "class"}, Durations: &g.wait},
		{Name: "forward_answer_seconds", Help: "From a command to its answer.", Labels: []string{"pipeline", "class"},
			Durations: &g.answers},
		{Name: "forward_throttled_total",
			Help: "429 answers of Telegram; the chat gets no messages for as long as they say.", Labels: one,
			Counter: &g.throttled},
		{Name: "forward_possible_duplicates_total",
			Help:   "Calls that sent something and were not answered. They are repeated, and the message may be there twice.",
			Labels: one, Counter: &g.unknown},
		{Name: "forward_targets_disabled_total", Help: "Targets that were disabled because they refuse the bot.",
			Labels: one, Counter: &g.blocked},
		{Name: "forward_poll_errors_total", Help: "Polls for updates that failed.", Labels: one,
			Counter: &g.pollErrors},
		{Name: "forward_webhook_refused_total",
			Help: "Calls of the webhook with a wrong secret, or without an update.", Labels: one,
			Counter: &g.webhookRefused},
		f.gauge("forward_leader", "1 in the process that polls and sends.", f.leader.leads),
		f.gauge("forward_limit_pinned", "1 while messages wait for the limit of all chats together.", f.pacer.pinned),
	}
}

// gauge is 1 while something is the case, else 0.
func (f *forwarder) gauge(name, help string, is func() bool) observe.Metric {
	return observe.Metric{Name: name, Help: help, Labels: []string{"pipeline"},
		Gauge: func(set func(float64, ...string)) {
			v := 0.0
			if is() {
				v = 1
			}
			set(v, f.env.Name)
		}}
}
