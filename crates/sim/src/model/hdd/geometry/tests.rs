//! Where sectors lie: every one has a place of its own, zones follow one another, tracks are skewed.

use std::collections::BTreeSet;

use super::*;

/// A drive small enough to look at every sector: 3 zones, 2 heads.
fn tiny() -> HddParams {
    HddParams {
        sectors: 3000,
        heads: 2,
        zones: 3,
        outer_track_sectors: 30,
        inner_track_sectors: 20,
        ..HddParams::seagate_cheetah_15k4_73()
    }
}

#[test]
fn every_sector_has_a_place_of_its_own_in_ascending_order() {
    let geometry = Geometry::new(&tiny());
    let places: Vec<_> = (0..3000).map(|lba| geometry.locate(lba)).collect();
    let key = |place: &Place| (place.cylinder, place.head, place.sector);
    assert!(places.windows(2).all(|pair| key(&pair[0]) < key(&pair[1])), "places ascend with addresses");
    assert_eq!(places.iter().map(key).collect::<BTreeSet<_>>().len(), 3000);
    assert!(places.iter().all(|place| place.sector < place.track_sectors && place.head < 2));
    assert!(places.iter().all(|place| place.cylinder < geometry.cylinders()));
}

#[test]
fn zones_get_no_denser_inward() {
    for params in [
        HddParams::wd_caviar_black_640(),
        HddParams::seagate_cheetah_15k4_73(),
        HddParams::seagate_exos_x18(),
    ] {
        let geometry = Geometry::new(&params);
        let tracks: Vec<_> =
            (0..1000).map(|part| geometry.locate((params.sectors - 1) / 999 * part).track_sectors).collect();
        assert!(tracks.windows(2).all(|pair| pair[0] >= pair[1]));
        assert_eq!(tracks[0], params.outer_track_sectors);
        assert_eq!(tracks[999], params.inner_track_sectors);
    }
}

#[test]
fn consecutive_sectors_follow_one_another_in_time() {
    let geometry = Geometry::new(&tiny());
    for lba in 0..2999 {
        let place = geometry.locate(lba);
        let next = geometry.locate(lba + 1);
        let passed = u64::from(geometry.angle_ns(&place)) + geometry.pass_ns(&place, 1);
        let skew = match (place.cylinder == next.cylinder, place.head == next.head) {
            (true, true) => 0,
            (true, false) => geometry.track_skew_ns,
            _ => geometry.cylinder_skew_ns,
        };
        assert_eq!((passed + skew) % geometry.revolution_ns, u64::from(geometry.angle_ns(&next)), "{lba}");
    }
}

#[test]
fn a_transfer_takes_as_long_as_its_parts_and_can_be_counted_back() {
    let geometry = Geometry::new(&tiny());
    for (start, count) in [(0, 1), (0, 30), (0, 31), (7, 23), (7, 60), (29, 200), (950, 300)] {
        let place = geometry.locate(start);
        let whole = geometry.pass_ns(&place, count);
        let mut time = 0;
        for lba in start..start + count {
            let from = geometry.locate(lba);
            time += geometry.pass_ns(&from, 1);
            let after = u64::from(geometry.angle_ns(&from)) + geometry.pass_ns(&from, 1);
            if lba + 1 < start + count {
                let next = u64::from(geometry.angle_ns(&geometry.locate(lba + 1)));
                time +=
                    (next + geometry.revolution_ns - after % geometry.revolution_ns) % geometry.revolution_ns;
            }
        }
        assert_eq!(whole, time, "{start} {count}");
        assert_eq!(geometry.passed(&place, whole, count + 50), (count, whole));
        assert_eq!(geometry.passed(&place, whole - 1, count + 50).0, count - 1);
        assert_eq!(geometry.passed(&place, whole * 2, count), (count, whole));
    }
}
