package crawl

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

func hostsCommand() pipeline.Command {
	return pipeline.Command{
		Use: "hosts", Short: "List the hosts of a crawl: requests that wait and fail, and the ends of pauses",
		Long: `Lists the busiest hosts of a crawl, over all its processes. It counts the first 2,000
requests that wait or are in flight, and the last 2,000 that failed for good.`,
		Example: "  pawl crawl hosts\n  pawl crawl hosts --pipeline shop", Flags: []pipeline.Flag{pipeline.Which()},
		Effect: pipeline.Looks, Run: listHosts,
	}
}

func listHosts(ctx context.Context, in *pipeline.Invocation) error {
	name, url := Name, "" // of a crawl by the command line
	sections, err := in.Pipelines(Name)
	if err != nil {
		return err
	}
	if len(sections) > 0 || in.Flags.Text("pipeline") != "" {
		var section pipeline.Section
		if name, section, err = in.Chosen(Name); err != nil {
			return err
		}
		url = section.Text("state")
	}
	s, err := in.Open(ctx, url, true)
	if err != nil {
		return err
	}
	p, err := find(s)
	if err != nil {
		return err
	}
	all, err := hostsOf(ctx, p, name)
	if err != nil {
		return err
	}
	rows := busiest(all)
	return in.Rows([]string{"HOST", ">WAITING", ">IN FLIGHT", ">ERRORS", "HELD UNTIL"}, rows, func(i int) []string {
		h, held := &rows[i], ""
		if !h.HeldUntil.IsZero() {
			held = h.HeldUntil.UTC().Format("2006-01-02 15:04:05Z")
		}
		return []string{h.Host, fmt.Sprint(h.Waiting), fmt.Sprint(h.InFlight), fmt.Sprint(h.Errors), held}
	})
}

// hostsOf is what the store knows of the hosts of a crawl, by their names.
func hostsOf(ctx context.Context, p parts, name string) (map[string]*hostStatus, error) {
	all, topic := map[string]*hostStatus{}, name+".request"
	host := func(key []byte) *hostStatus {
		id, _, _ := strings.Cut(string(key), "#")
		if all[id] == nil {
			all[id] = &hostStatus{Host: id}
		}
		return all[id]
	}
	look, ok := store.As[store.Inspector](p.store)
	if !ok {
		return nil, &store.Error{Op: "list hosts", Code: store.ErrUnsupported}
	}
	for r, err := range look.List(ctx, store.Filter{Topic: topic, Limit: boardListed}) {
		if err != nil {
			return nil, err
		}
		if h := host(r.Key); r.State == store.Leased {
			h.InFlight++
		} else {
			h.Waiting++
		}
	}
	for r, err := range p.letters.Dead(ctx, store.DeadFilter{Topic: topic, Brief: true, Limit: boardListed}) {
		if err != nil {
			return nil, err
		}
		host(r.Key).Errors++
	}
	run, err := load(ctx, p, name)
	if err != nil || run == nil || len(all) == 0 {
		return all, err
	}
	var keys []string
	for id := range all {
		keys = append(keys, heldKey+id)
	}
	held, err := p.marks.GetMarks(ctx, scopeOf(run.ID), keys...)
	for key, m := range held {
		all[strings.TrimPrefix(key, heldKey)].HeldUntil = m.Until
	}
	return all, err
}
