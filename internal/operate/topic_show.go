package operate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// TopicShown is everything about a topic, as JSON.
type TopicShown struct {
	Topic
	// Origins say where each setting comes from, by its name: default, declared (by a worker or a daemon), or who set
	// it, and when.
	Origins map[string]string `json:"origins"`
	// Retries is what operators have set about retries; what is not in it is left to the workers.
	Retries policy.Retries `json:"retries"`
	Workers []string       `json:"workers"` // those that are registered for it
}

// ShowTopic returns everything about a topic.
func ShowTopic(ctx context.Context, s store.Store, topics store.Topics, name string) (*TopicShown, error) {
	stats, err := topics.Stats(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(stats) == 0 {
		return nil, &store.Error{Op: "show topic " + name, Code: store.ErrNotFound,
			Err: fmt.Errorf("there is no topic %q", name), Hint: "`pawl topics ls` lists all"}
	}
	shown := &TopicShown{Topic: FormTopic(&stats[0]), Origins: map[string]string{}, Workers: []string{}}
	changes, err := pageAudit(ctx, s, settingsOf(name), AuditFilter{}, Part{Looks: MostSearched, Newest: true})
	if err != nil && !errors.Is(err, store.ErrUnsupported) {
		return nil, err
	}
	now, plain := stats[0].Topic, store.NewTopic(name)
	for setting, same := range map[string]bool{
		"order":    now.Order == plain.Order,
		"deadline": now.Deadline == plain.Deadline, "ageing": now.Ageing == plain.Ageing,
		"park": !now.Park, "retry": !now.Tail, "retain": now.Retain == 0, "max_waiting": now.MaxWaiting == 0,
	} {
		shown.Origins[setting] = originOf(setting, same, changes.Items)
	}
	kept, err := Retries(ctx, s, name)
	if err != nil {
		return nil, err
	}
	shown.Retries, shown.Origins["retries"] = kept.Retries, "the workers"
	if kept.Who != "" {
		shown.Origins["retries"] = by("set", kept.Who, kept.At)
	}
	workers, err := Workers(ctx, s)
	if err != nil && !errors.Is(err, store.ErrUnsupported) {
		return nil, err
	}
	for i := range workers {
		if w := &workers[i]; w.serves(name) {
			shown.Workers = append(shown.Workers, w.Owner)
		}
	}
	return shown, nil
}

// originOf is where a setting comes from: the last change of it in the audit counts.
func originOf(setting string, isDefault bool, newestFirst []AuditEntry) string {
	// As the flags of topics set, as a declaration that changed it, and as JSON.
	named := regexp.MustCompile(`(^|[ ;{,"])` + strings.ReplaceAll(setting, "_", "[-_]") + `(_seconds)?[ ="]`)
	for _, a := range newestFirst {
		if named.MatchString(a.Change) {
			return by(strings.TrimPrefix(a.Action, "topics "), a.Who, a.At)
		}
	}
	if isDefault {
		return "default"
	}
	return "declared"
}

func by(what, who string, at time.Time) string {
	did := map[string]string{"set": "set", "declare": "declared"}[what]
	return fmt.Sprintf("%s by %s at %s", did, who, at.UTC().Format(time.RFC3339))
}
