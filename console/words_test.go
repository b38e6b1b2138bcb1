package console

import "github.com/pawl-dev/pawl/internal/operate"

// pageTexts are those that pages translate by their value.
func pageTexts() []string {
	all := append(operate.OperationStatuses(), operate.FactNames()...)
	for _, h := range undoHints {
		all = append(all, h.hint)
	}
	for _, phrase := range situations {
		all = append(all, phrase)
	}
	return append(all, operate.KindReplay, operate.KindDiscard, operate.KindResolve, operate.KindReopen,
		"ok", "warn", "fail", "skip", // verdicts of the doctor
		"retry", "dead", "ignore", // what the policy decides
		"waiting", "delayed", "leased", "fired", "skipped", "replaced", "missed", "manual", "backfill", // of ticks
		"degraded", "pause", "cancel",
		"on day %s of the month", "or on %s", "on %s", "in %s", // of cron expressions
		"seconds %s, minutes %s, hours %s", "minutes %s, hours %s", "every minute", "every %s minutes",
		"each hour at minute %d", "every %s hours at minute %d",
		"each hour from %s to %s", "at %s", "%s to %s")
}
