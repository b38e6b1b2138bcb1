package gate

// String is the name of the admission.
func (a Admission) String() string { return [...]string{"admitted", "known", "full"}[a] }

// Unfinished is how many registered positions are not finished.
func (g *Gate) Unfinished() (n int) {
	for pos := g.base; pos < g.tail; pos++ {
		if !g.ring.has(pos) {
			n++
		}
	}
	return n
}
