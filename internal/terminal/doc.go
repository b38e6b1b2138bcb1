// Package terminal prints for people: tables that fit the width of a terminal, and a board at its bottom
// that stays whole while other lines are written above it.
package terminal
