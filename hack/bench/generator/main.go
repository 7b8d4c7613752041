// Command generator sends HTTP requests as fast as they are answered or by a timetable, and
// reports how long the answers took.
//
// It reads jobs from its standard input, one JSON object each, and writes a report for each.
// Connections stay open from one job to the next.  HTTP/1.1 is written by hand, because the load
// must cost less than its answers.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A job is a number of requests, with bodies that take turns.  "{n}" in path and body stands for the
// request's number.
type job struct {
	Target
	Connections int
	Method      string
	Path        string
	Type        string
	Bodies      []string
	First       int     // the number of the first request
	Requests    int     // how many
	Expect      string  // a part of every good answer
	Timetable   []entry // the requests, if it is not empty: only Expect is of use beside it
}

// An entry of a timetable is a request at a time in seconds since the start of the job.
type entry struct {
	At                       float64
	Method, Path, Type, Body string
}

// A report is what a job came to; times are in seconds.
type report struct {
	Seconds  float64 `json:"seconds"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
	Failures int     `json:"failures"`
	Why      string  `json:"why"` // of one failure
}

func main() {
	jobs, reports := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	open := map[string][]*connection{}
	for {
		var next job
		if err := jobs.Decode(&next); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			fmt.Fprintln(os.Stderr, "no job:", err)
			os.Exit(2)
		}
		key := next.URL + next.Client
		for len(open[key]) < next.Connections {
			open[key] = append(open[key], &connection{target: next.Target})
		}
		if err := reports.Encode(run(next, open[key][:next.Connections])); err != nil {
			os.Exit(1)
		}
	}
}

// run sends all requests over these connections.
func run(j job, connections []*connection) report {
	var sent atomic.Int64
	var all sync.WaitGroup
	parts := make([]part, len(connections))
	began := time.Now()
	for i, c := range connections {
		all.Go(func() { parts[i] = work(j, c, began, &sent) })
	}
	all.Wait()
	seconds := time.Since(began).Seconds()
	var taken []time.Duration
	result := report{Seconds: seconds}
	for _, p := range parts {
		taken = append(taken, p.taken...)
		if result.Failures += p.failures; p.why != nil {
			result.Why = p.why.Error()
		}
	}
	slices.Sort(taken)
	if len(taken) > 0 {
		result.P50 = taken[len(taken)/2].Seconds()
		result.P99 = taken[len(taken)*99/100].Seconds()
	}
	return result
}

// A part is what one connection did.
type part struct {
	taken    []time.Duration
	failures int
	why      error
}

// work sends one request after the other, until all of the job are sent.
func work(j job, c *connection, began time.Time, sent *atomic.Int64) (done part) {
	for {
		i := int(sent.Add(1)) - 1
		if i >= j.requests() {
			return done
		}
		e := j.entry(i)
		due := time.Now()
		if e.At > 0 {
			// From when it was due: a client that waits would hide how late an answer is.
			due = began.Add(time.Duration(e.At * float64(time.Second)))
			time.Sleep(time.Until(due))
		}
		if err := c.exchange(e.Method, e.Path, e.Type, e.Body, j.Expect); err != nil {
			done.failures, done.why = done.failures+1, err
			continue
		}
		done.taken = append(done.taken, time.Since(due))
	}
}

func (j job) requests() int {
	if len(j.Timetable) > 0 {
		return len(j.Timetable)
	}
	return j.Requests
}

// entry returns a request and when it is due; at 0 that is at once.
func (j job) entry(i int) entry {
	if len(j.Timetable) > 0 {
		return j.Timetable[i]
	}
	number := strconv.Itoa(j.First + i)
	fill := func(text string) string { return strings.ReplaceAll(text, "{n}", number) }
	e := entry{Method: j.Method, Path: fill(j.Path), Type: j.Type, Body: fill(j.Bodies[i%len(j.Bodies)])}
	return e
}
