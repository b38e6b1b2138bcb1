package sqlstore

// Rank is [store.Topic.Rank] in SQL: of the moment in microseconds at which a message is
// visible, its priority and the ageing of its topic in nanoseconds.
func Rank(micros, priority, ageing string) string {
	return micros + " + (100 - " + priority + ") * (" + ageing + " / 1000)"
}
