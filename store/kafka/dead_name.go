package kafka

import "strings"

// deadName is the name of the topic of a topic's dead letters.
func (c *Config) deadName(of string) string {
	if name, ok := c.DeadNames[of]; ok {
		return name
	}
	return of + c.DeadSuffix
}

// deadHome is the topic whose dead letters a topic has, if it is such a topic.
func (c *Config) deadHome(name string) (of string, ok bool) {
	for of, dead := range c.DeadNames {
		if dead == name {
			return of, true
		}
	}
	return strings.CutSuffix(name, c.DeadSuffix)
}

// DeadName is the name of the topic of a topic's dead letters.
func (s *Store) DeadName(of string) string { return s.cfg.deadName(of) }
