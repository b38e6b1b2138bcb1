package serve

import "github.com/pawl-dev/pawl/observe"

// ownMetrics are those that are read from the daemon at every scrape.
func (d *Daemon) ownMetrics() []observe.Metric {
	all := []observe.Metric{observe.ProgramRestarts(d.programRestarts), observe.HandlersLate(d.handlersLate)}
	if d.Dropped != nil {
		all = append(all, observe.LogDropped(d.Dropped))
	}
	return all
}

// programRestarts counts the starts of kept programs beyond the first ones, by topic and
// by how the program before had ended.
func (d *Daemon) programRestarts(set func(value float64, labels ...string)) {
	for _, c := range d.served {
		k, ok := c.runner.(*keeper)
		if !ok {
			continue
		}
		e := k.restarts()
		set(float64(e.left), k.topic.Name, "left")
		set(float64(e.crashed), k.topic.Name, "crashed")
		set(float64(e.killed), k.topic.Name, "killed")
	}
}

// handlersLate counts the handlers that are near their deadline.
func (d *Daemon) handlersLate(set func(value float64, labels ...string)) {
	for _, t := range d.dispatcher.Snapshot().Topics {
		set(float64(t.Late), t.Name)
	}
}
