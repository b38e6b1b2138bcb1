package gate

// String is the name of the admission.
func (a Admission) String() string {
	return [...]string{"admitted", "finished", "full", "behind", "repeated", "closed"}[a]
}

// Unfinished is how many registered positions are not finished.
func (g *Gate) Unfinished() int {
	var v view
	v.look(g)
	return int(v.registered) - set(v.bits[:]).below(v.registered)
}

// Done reports whether Ack was called, be it in time or too late.
func (t *Ticket) Done() bool { return t.done.Load() }
