// Package migrate moves the traffic of topics from one store to another, and back:
// begin copies, compare, cut over, roll back.
package migrate
