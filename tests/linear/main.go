// Judges whether histories of registers are linearizable, by Porcupine.
//
// Each argument is a file that tests/registers.py has written. The exit status is 1 if one of them is not linearizable.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

type line struct {
	Client   int    `json:"client"`
	Op       string `json:"op"`
	Register int    `json:"register"`
	Value    uint64 `json:"value"`
	Call     int64  `json:"call"`
	Return   *int64 `json:"return"`
}

type input struct {
	isWrite  bool
	register int
	value    uint64
}

// A register holds what was written last. Nothing is known of it before.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := map[int][]porcupine.Operation{}
		for _, operation := range history {
			register := operation.Input.(input).register
			parts[register] = append(parts[register], operation)
		}
		var all [][]porcupine.Operation
		for _, part := range parts {
			all = append(all, part)
		}
		return all
	},
	Init: func() interface{} { return uint64(0) },
	Step: func(state, in, out interface{}) (bool, interface{}) {
		asked := in.(input)
		if asked.isWrite {
			return true, asked.value
		}
		return out.(uint64) == state.(uint64), state
	},
}

func read(path string) ([]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var history []porcupine.Operation
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var found line
		if err := json.Unmarshal(scanner.Bytes(), &found); err != nil {
			return nil, err
		}
		// What was not answered may happen at any time.
		end := int64(math.MaxInt64)
		if found.Return != nil {
			end = *found.Return
		}
		history = append(history, porcupine.Operation{
			ClientId: found.Client,
			Input:    input{found.Op == "write", found.Register, found.Value},
			Output:   found.Value,
			Call:     found.Call,
			Return:   end,
		})
	}
	return without(history), scanner.Err()
}

// Without writes that were not answered and whose value nobody has read since: such a write can always be taken for one that never happened, and
// each of them doubles the search.
func without(history []porcupine.Operation) []porcupine.Operation {
	type seen struct {
		register int
		value    uint64
	}
	read := map[seen]int64{}
	for _, operation := range history {
		if of := operation.Input.(input); !of.isWrite {
			key := seen{of.register, operation.Output.(uint64)}
			read[key] = max(read[key], operation.Return)
		}
	}
	var left []porcupine.Operation
	for _, operation := range history {
		of := operation.Input.(input)
		last, isRead := read[seen{of.register, of.value}]
		if of.isWrite && operation.Return == math.MaxInt64 && (!isRead || last < operation.Call) {
			continue
		}
		left = append(left, operation)
	}
	return left
}

func main() {
	isGood := true
	for _, path := range os.Args[1:] {
		history, err := read(path)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(2)
		}
		result := porcupine.CheckOperationsTimeout(model, history, 2*time.Minute)
		fmt.Printf("%s: %d operations: %s\n", path, len(history), result)
		isGood = isGood && result == porcupine.Ok
	}
	if !isGood {
		os.Exit(1)
	}
}
