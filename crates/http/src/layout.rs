//! Layered layout of a directed graph: ranks by the longest path, order within a rank by barycentres.

/// Sweeps over all ranks, down and up in turn: more change little.
const SWEEPS: usize = 8;

/// Where a node is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) rank: usize,
    pub(crate) order: usize,
}

/// The places of nodes that are given by the nodes each one depends on. A node in a cycle has rank 0 or one below those
/// outside of it; job files have none.
pub(crate) fn layers(depends: &[Vec<usize>]) -> Vec<Place> {
    let mut places = vec![Place::default(); depends.len()];
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); depends.len()];
    let mut missing: Vec<usize> = depends.iter().map(Vec::len).collect();
    for (node, above) in depends.iter().enumerate() {
        for one in above {
            dependents[*one].push(node);
        }
    }
    let mut ready: Vec<usize> = (0..depends.len()).filter(|node| missing[*node] == 0).collect();
    while let Some(node) = ready.pop() {
        for below in &dependents[node] {
            places[*below].rank = places[*below].rank.max(places[node].rank + 1);
            missing[*below] -= 1;
            if missing[*below] == 0 {
                ready.push(*below);
            }
        }
    }
    let mut ranks: Vec<Vec<usize>> = Vec::new();
    for (node, place) in places.iter_mut().enumerate() {
        if ranks.len() <= place.rank {
            ranks.resize(place.rank + 1, Vec::new());
        }
        place.order = ranks[place.rank].len();
        ranks[place.rank].push(node);
    }
    for sweep in 0..SWEEPS {
        let is_down = sweep % 2 == 0;
        let neighbours = if is_down { depends } else { &dependents };
        let last = ranks.len().saturating_sub(1);
        for step in 1..ranks.len() {
            let rank = if is_down { step } else { last - step };
            arrange(&mut ranks[rank], neighbours, &mut places);
        }
    }
    places
}

/// Sorts a rank by the mean place of each node's neighbours. Those without any stay where they are.
fn arrange(rank: &mut [usize], neighbours: &[Vec<usize>], places: &mut [Place]) {
    let mean = |node: usize| {
        let near = &neighbours[node];
        match near.len() {
            0 => places[node].order as f64,
            len => near.iter().map(|one| places[*one].order as f64).sum::<f64>() / len as f64,
        }
    };
    let mut keyed: Vec<(f64, usize)> = rank.iter().map(|node| (mean(*node), *node)).collect();
    keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (order, (slot, (_, node))) in rank.iter_mut().zip(keyed).enumerate() {
        *slot = node;
        places[node].order = order;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_stand_below_what_they_wait_for() {
        let check = |depends: &[&[usize]], expected: &[(usize, usize)]| {
            let depends: Vec<Vec<usize>> = depends.iter().map(|above| above.to_vec()).collect();
            let found: Vec<_> = layers(&depends).iter().map(|place| (place.rank, place.order)).collect();
            assert_eq!(found, expected, "{depends:?}");
        };
        check(&[], &[]);
        check(&[&[]], &[(0, 0)]);
        check(&[&[], &[0], &[0, 1]], &[(0, 0), (1, 0), (2, 0)]);
        // Two pairs whose edges would cross in the order of the file.
        check(&[&[], &[], &[1], &[0]], &[(0, 0), (0, 1), (1, 1), (1, 0)]);
        // A cycle ends, too.
        assert_eq!(layers(&[vec![1], vec![0]]).len(), 2);
    }

    #[test]
    fn a_large_graph_has_one_place_for_each_step() {
        let depends: Vec<Vec<usize>> = (0..10_000usize)
            .map(|no| if no < 100 { Vec::new() } else { vec![no - 100, (no * 7) % (no - 99)] })
            .collect();
        let places = layers(&depends);
        let mut seen = std::collections::BTreeSet::new();
        assert!(places.iter().all(|place| seen.insert((place.rank, place.order))));
        for (node, above) in depends.iter().enumerate() {
            assert!(above.iter().all(|one| places[*one].rank < places[node].rank));
        }
    }
}
