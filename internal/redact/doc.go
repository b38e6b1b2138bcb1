// Package redact masks secrets in text: passwords in URLs, and those that it has
// been told of.
package redact
